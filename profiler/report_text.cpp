#include <fmt/format.h>

#include "profiler/format.h"
#include "profiler/report.h"
#include "profiler/summary.h"

namespace ferry::profiler {
namespace {

using Align = TextTable::Align;

std::string heading(std::string_view title) { return fmt::format("\n{0}{1:^27}{0}\n\n", std::string(25, '-'), title); }

std::string header_text(const Summary& summary, SortKey sort) {
  std::string text = fmt::format("\n{0}>     {1}     <{0}\n\n", std::string(25, '-'), "Profiling Report");
  text += fmt::format("Place: {}{}\n", summary.place, summary.virtual_time ? ", virtual time" : "");
  text += "Time unit: ms\n";
  text += fmt::format("Sorted by {}\n\n", sort_text(sort));
  text += fmt::format("Total time: {}\n", milliseconds(summary.total));
  TextTable parts({Align::left, Align::left, Align::left}, 4);
  const auto part = [&](std::string_view name, Nanoseconds time) {
    parts.add({fmt::format("  {}", name), "Total: " + milliseconds(time), "Ratio: " + percent(summary.ratio(time))});
  };
  part("Computation time", summary.computation);
  part("Framework overhead", summary.overhead());
  return text + parts.render();
}

std::string memcpy_text(const Summary& summary) {
  TextTable table({Align::left, Align::left, Align::left, Align::left}, 4);
  const auto row = [&](std::string_view name, const Figures& figures) {
    table.add({std::string(name), fmt::format("Calls: {}", figures.calls), "Total: " + milliseconds(figures.total()),
               "Ratio: " + percent(summary.ratio(figures.total()))});
  };
  row("GpuMemcpy", summary.memcpy);
  if (summary.memcpy_async.calls > 0) row("  GpuMemcpyAsync", summary.memcpy_async);
  if (summary.memcpy_sync.calls > 0) row("  GpuMemcpySync", summary.memcpy_sync);
  std::string text = heading("GpuMemCpy Summary") + table.render();
  if (const ReadTotals& reads = summary.fetches; reads.calls > 0) {
    text += fmt::format("Explicit reads: {}, host blocked for {} ms (draining {} ms, copying {} ms)\n",
                        counted(reads.calls, "call", "calls"), milliseconds(reads.blocked()), milliseconds(reads.drain),
                        milliseconds(reads.transfer));
  }
  if (!summary.copy_check.library.empty()) text += copy_check_text(summary.copy_check) + '\n';
  if (summary.memcpy.calls > 0) {
    text +=
        "\nTotal = host time + device time of the copies. Both overlap: ratios to the total time may sum to more "
        "than 100%.\n";
  }
  return text;
}

std::string events_text(const Summary& summary, const EventTable& events) {
  TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right,
                   Align::right, Align::right});
  table.add({"Event", "Calls", "Total", "CPU Time (Ratio)", "GPU Time (Ratio)", "Min.", "Max.", "Ave.", "Ratio."});
  const auto add = [&](const std::string& name, const Figures& figures) {
    const auto share = [&](Nanoseconds part) {
      const double total = static_cast<double>(figures.total().count());
      return fmt::format("{} ({:.6f})", milliseconds(part),
                         total > 0 ? static_cast<double>(part.count()) / total : 0.0);
    };
    table.add({name, std::to_string(figures.calls), milliseconds(figures.total()), share(figures.cpu),
               share(figures.gpu), milliseconds(figures.min), milliseconds(figures.max),
               milliseconds(figures.average()), fmt::format("{:.6f}", summary.ratio(figures.total()))});
  };
  for (const EventRow& event : events.rows) {
    const std::string indent(static_cast<std::size_t>(event.depth) * 2, ' ');
    add(indent + (event.is_scope ? "scope " : "") + event.name, event.figures);
    for (const CopyRow& copy : event.copies) add("  " + copy.name, copy.figures);
  }
  const std::string title = events.thread < 0 ? "" : fmt::format("Thread {}\n\n", events.thread);
  return heading("Event Summary") + title + table.render() +
         "\nTotal = CPU Time + GPU Time. Host and device overlap: ratios to the total time may sum to more than 1.\n";
}

std::string memory_text(const Summary& summary) {
  if (summary.memory.empty()) return "";
  TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
  table.add({"Device", "Peak allocated", "Peak reserved", "Capacity", "Copied to", "Copied from"});
  for (const MemoryRow& row : summary.memory) {
    const trace::DeviceInfo& info = row.device;
    const std::string device = to_string(info.device);
    table.add({info.name.empty() || info.name == device ? device : fmt::format("{} ({})", device, info.name),
               to_string(info.peak_allocated), to_string(info.peak_reserved), to_string(info.capacity),
               to_string(row.to_device), to_string(row.from_device)});
  }
  return heading("Memory Summary") + table.render();
}

constexpr std::size_t kWidth = 110;

std::string finding_text(const trace::Trace& trace, const Summary& summary, std::size_t index) {
  const trace::Hotspot& finding = summary.findings[index];
  const std::string op = trace.string(finding.op_name);
  const std::string from = device_label(trace, finding.from), to = device_label(trace, finding.to);
  std::string text = fmt::format("{}. {} at {}\n", index + 1, op, site_text(trace, finding.site));
  if (finding.scope >= 0) text += fmt::format("   Scope: {}\n", trace.string(finding.scope));
  text +=
      fmt::format("   {} {}->{} of {}, {} in all\n", counted(finding.calls, "synchronous copy", "synchronous copies"),
                  from, to, tensor_text(trace, finding.tensor), to_string(finding.size));
  text += fmt::format("   Host blocked for {} ms ({} of the total time): draining {} ms, copying {} ms\n",
                      milliseconds(finding.blocked), short_percent(summary.ratio(finding.blocked)),
                      milliseconds(finding.drain), milliseconds(finding.transfer));
  const auto line = [&](const std::string& sentence) { text += wrapped("   " + sentence, kWidth, 3) + '\n'; };
  line(placement_text(trace, finding));
  if (finding.advice.empty()) line(kNoAdvice);
  for (std::size_t i = 0; i < finding.advice.size(); ++i)
    line((i == 0 ? "Change: " : "Or: ") + advice_text(summary.findings, index, finding.advice[i]));
  return text;
}

std::string findings_text(const trace::Trace& trace, const Summary& summary) {
  std::string text = heading("Findings");
  if (summary.findings.empty()) text += "No implicit copy blocked the host.\n";
  for (std::size_t i = 0; i < summary.findings.size(); ++i) {
    if (i > 0) text += '\n';
    text += finding_text(trace, summary, i);
  }
  return text;
}

std::string reads_text(const trace::Trace& trace, const Summary& summary) {
  if (summary.reads.empty() && trace.unavailable_reads == 0) return "";
  std::string text = heading("Explicit reads");
  TextTable table({Align::left, Align::left, Align::left, Align::left, Align::right, Align::right, Align::right});
  table.add({"Op", "Line", "Variable", "Copies", "Calls", "Bytes", "Blocked"});
  for (const ExplicitRead& read : summary.reads) {
    table.add({trace.string(read.op), site_text(trace, read.site), tensor_text(trace, read.tensor),
               device_label(trace, read.from) + "->" + device_label(trace, read.to), std::to_string(read.calls),
               to_string(read.size), milliseconds(read.blocked())});
  }
  if (!summary.reads.empty()) text += table.render();
  if (trace.unavailable_reads > 0) {
    text += fmt::format("{} in timing-only mode, where no values exist: each gave 0.\n",
                        counted(trace.unavailable_reads, "value was read", "values were read"));
  }
  return text;
}

}  // namespace

std::string report_text(const trace::Trace& trace, const ReportOptions& options) {
  const Summary summary = summarize(trace, options);
  std::string text = header_text(summary, options.sort) + memcpy_text(summary);
  for (const EventTable& events : summary.tables) text += events_text(summary, events);
  text += memory_text(summary) + findings_text(trace, summary) + reads_text(trace, summary);
  return text;
}

}  // namespace ferry::profiler
