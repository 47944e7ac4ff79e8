#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "profiler/analysis_report/report.h"
#include "profiler/format.h"

namespace ferry::profiler::analysis_report {
namespace {

using Align = TextTable::Align;
constexpr std::size_t kWidth = 110;

std::string heading(std::string_view title) { return fmt::format("\n{0}{1:^27}{0}\n\n", std::string(25, '-'), title); }

std::string header_text(const AnalysisReport& report) {
  std::string text = fmt::format("\n{0}>     {1}     <{0}\n\n", std::string(25, '-'), "Trace Analysis");
  text += fmt::format("Trace: {} ({}{}{})\n", report.source, report.format,
                      report.rank >= 0 ? fmt::format(", rank {}", report.rank) : "",
                      report.virtual_time ? ", virtual time" : "");
  text += "Time unit: ms\n\n";
  TextTable lines({Align::left, Align::left}, 2);
  for (const GpuRow& gpu : report.gpus) {
    const std::string name = fmt::format("gpu:{}{}", gpu.device, gpu.name.empty() ? "" : " (" + gpu.name + ")");
    lines.add({name, fmt::format("busy {} ({}), {}", milliseconds(gpu.busy), short_percent(report.share(gpu.busy)),
                                 counted(gpu.kernels, "kernel", "kernels"))});
  }
  lines.add({"Span", milliseconds(report.span)});
  if (report.steps > 0)
    lines.add({"Steps", fmt::format("{}, {} on average", report.steps, milliseconds(report.step_time / report.steps))});
  lines.add({"Host blocked",
             fmt::format("{} ({}) by {}", milliseconds(report.blocked()), short_percent(report.share(report.blocked())),
                         counted(report.sync_calls(), "synchronous copy", "synchronous copies"))});
  return text + lines.render();
}

std::string copies_text(const AnalysisReport& report) {
  std::string text = heading("GpuMemCpy Summary");
  if (report.copies.empty()) return text + "No copies.\n";
  TextTable table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::right, Align::right});
  table.add({"Copies", "Direction", "Host memory", "Calls", "Bytes", "GPU time", "Host blocked"});
  for (const CopyRow& row : report.copies) {
    table.add({row.synchronous ? "GpuMemcpySync" : "GpuMemcpyAsync", std::string(direction_text(row.direction)),
               std::string(memory_text(row.memory)), std::to_string(row.calls), to_string(row.size),
               milliseconds(row.gpu), milliseconds(row.blocked)});
  }
  text += table.render();
  text += fmt::format("Synchronous: {} CPU->GPU, {} GPU->CPU", report.sync_h2d.calls, report.sync_d2h.calls);
  if (report.scalar_reads.calls > 0)
    text += fmt::format(" ({} of them read a value for {} ms)", report.scalar_reads.calls,
                        milliseconds(report.scalar_reads.blocked));
  text += "\n";
  if (report.explicit_copies.calls > 0)
    text += fmt::format("Explicit reads: {}, host blocked for {} ms; not among the synchronous ones\n",
                        counted(report.explicit_copies.calls, "call", "calls"),
                        milliseconds(report.explicit_copies.blocked));
  return text;
}

std::string chain_text(const Finding& finding) {
  std::string chain;
  for (const std::string& op : finding.chain) chain += (chain.empty() ? "" : " > ") + op;
  return chain;
}

std::string hotspot_text(const AnalysisReport& report, const Finding& finding, std::size_t number) {
  std::string text = wrapped(fmt::format("{}. {}", number, place_text(finding)), kWidth, 3) + '\n';
  const auto line = [&](const std::string& sentence) { text += wrapped("   " + sentence, kWidth, 3) + '\n'; };
  const std::string_view memory = memory_text(finding.memory);
  line(fmt::format("{}: {} {}{}{}, {} in all", finding.rule, counted(finding.calls, "copy", "copies"),
                   direction_text(finding.direction), memory.empty() ? "" : ", ", memory, to_string(finding.size)));
  line(fmt::format("Host blocked for {} ms ({} of the span{}): draining {} ms, copying {} ms",
                   milliseconds(finding.blocked), short_percent(report.share(finding.blocked)),
                   report.step_time > Nanoseconds(0)
                       ? fmt::format(", {} of the steps", short_percent(static_cast<double>(finding.in_steps.count()) /
                                                                        static_cast<double>(report.step_time.count())))
                       : "",
                   milliseconds(finding.drain), milliseconds(finding.copying)));
  if (finding.chain.size() > 1) line("Ops: " + chain_text(finding));
  if (!finding.allowed.empty()) line("Allowed: " + finding.allowed);
  line("Change: " + finding.fix);
  return text;
}

std::string hotspots_text(const AnalysisReport& report, std::size_t top) {
  std::string text = heading("Hotspots");
  if (report.hotspots.empty()) return text + "No synchronous copy between host and device.\n";
  const std::size_t count = std::min(top, report.hotspots.size());
  for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? "\n" : "") + hotspot_text(report, report.hotspots[i], i + 1);
  if (count < report.hotspots.size()) text += fmt::format("\n… {} more (--top)\n", report.hotspots.size() - count);
  return text;
}

std::string reads_text(const AnalysisReport& report, std::size_t top) {
  if (report.explicit_reads.empty()) return "";
  TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right});
  table.add({"Op", "Copies", "Calls", "Bytes", "Blocked"});
  for (std::size_t i = 0; i < std::min(top, report.explicit_reads.size()); ++i) {
    const Finding& read = report.explicit_reads[i];
    table.add({place_text(read), std::string(direction_text(read.direction)), std::to_string(read.calls),
               to_string(read.size), milliseconds(read.blocked)});
  }
  return heading("Explicit reads") + table.render();
}

std::string findings_text(const AnalysisReport& report, std::size_t top) {
  if (report.findings.empty()) return "";
  std::string text = heading("Other findings"), rule;
  std::size_t shown = 0, of_rule = 0;
  for (const Finding& finding : report.findings) {
    of_rule = finding.rule == rule ? of_rule + 1 : 0;
    rule = finding.rule;
    if (of_rule >= top) continue;
    if (shown++ > 0) text += '\n';
    const bool has_place = !finding.op.empty() || !finding.frame.empty();
    text += wrapped(fmt::format("{}{}{}", finding.rule, has_place ? ": " : "", has_place ? place_text(finding) : ""),
                    kWidth, 3) +
            '\n';
    text += wrapped(fmt::format("   {}: {} ms ({})", finding.text, milliseconds(finding.blocked),
                                short_percent(report.share(finding.blocked))),
                    kWidth, 3) +
            '\n';
    text += wrapped("   Change: " + finding.fix, kWidth, 3) + '\n';
  }
  return text;
}

std::string parts_text(const AnalysisReport& report) {
  if (report.parts.empty()) return "";
  TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
  table.add({"File", "Rank", "Span", "GPU busy", "Sync CPU->GPU", "Sync GPU->CPU", "Host blocked"});
  for (const AnalysisReport& part : report.parts) {
    Nanoseconds busy{};
    for (const GpuRow& gpu : part.gpus) busy += gpu.busy;
    table.add({part.source, part.rank < 0 ? "" : std::to_string(part.rank), milliseconds(part.span),
               short_percent(part.share(busy)), std::to_string(part.sync_h2d.calls),
               std::to_string(part.sync_d2h.calls),
               fmt::format("{} ({})", milliseconds(part.blocked()), short_percent(part.share(part.blocked())))});
  }
  return heading("Files") + table.render();
}

}  // namespace

std::string report_text(const AnalysisReport& report, const PrintOptions& options) {
  std::string text = header_text(report) + parts_text(report) + copies_text(report) +
                     hotspots_text(report, options.top) + reads_text(report, options.top) +
                     findings_text(report, options.top);
  if (report.warnings.empty()) return text;
  text += heading("Warnings");
  for (const std::string& warning : report.warnings) text += wrapped("- " + warning, kWidth, 2) + '\n';
  return text;
}

}  // namespace ferry::profiler::analysis_report
