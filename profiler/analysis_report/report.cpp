#include "profiler/analysis_report/report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "profiler/format.h"
#include "profiler/rules/grouping.h"
#include "src/base/check.h"

namespace ferry::profiler::analysis_report {
namespace {

using analysis::Activity;
using analysis::Transfer;

void add(Count& count, Nanoseconds blocked) {
  ++count.calls;
  count.blocked += blocked;
}

void count_copies(const TraceIndex& index, AnalysisReport& report) {
  std::map<std::tuple<bool, Direction, HostMemory>, CopyRow> rows;
  for (const Transfer& transfer : index.transfers()) {
    const bool synchronous = transfer.is_synchronous();
    CopyRow& row = rows[{!synchronous, transfer.direction, transfer.memory}];
    row.synchronous = synchronous;
    row.direction = transfer.direction;
    row.memory = transfer.memory;
    ++row.calls;
    row.size += transfer.size;
    row.blocked += transfer.blocked;
    if (transfer.work >= 0) row.gpu += index.event(transfer.work).duration();
    if (transfer.direction == Direction::device_to_device) add(report.device_copies, {});
    if (transfer.is_explicit()) add(report.explicit_copies, transfer.blocked);
    if (!synchronous) continue;
    add(transfer.direction == Direction::host_to_device ? report.sync_h2d : report.sync_d2h, transfer.blocked);
    if (rules::kind_of(index, transfer) == rules::CopyKind::scalar_readback) add(report.scalar_reads, transfer.blocked);
  }
  for (auto& [key, row] : rows) report.copies.push_back(row);
}

void describe(const TraceIndex& index, AnalysisReport& report) {
  const Activity& activity = index.activity();
  report.source = activity.source;
  report.format = activity.format;
  report.rank = activity.rank;
  report.virtual_time = activity.virtual_time;
  report.begin = index.window().begin;
  report.span = index.span();
  report.events = std::ssize(activity.events);
  report.steps = std::ssize(index.steps());
  for (const analysis::Step& step : index.steps()) report.step_time += step.time.end - step.time.begin;
  for (const analysis::GpuUse& use : index.gpus()) {
    const auto found = std::ranges::find(activity.gpus, use.device, &analysis::Gpu::id);
    report.gpus.push_back({use.device, found == activity.gpus.end() ? "" : found->name, use.total, use.kernels});
  }
}

void warn(const TraceIndex& index, AnalysisReport& report) {
  const analysis::Tolerated& met = index.activity().tolerated;
  const analysis::JoinCounts& counts = index.counts();
  std::vector<std::string>& out = report.warnings;
  out = index.activity().warnings;
  const auto say = [&](std::int64_t count, std::string_view one, std::string_view many, std::string_view rest) {
    if (count > 0) out.push_back(fmt::format("{} {}", counted(count, one, many), rest));
  };
  if (met.truncated_at >= 0)
    out.push_back(
        fmt::format("the file ends within a value at byte {}; what was whole before it is counted", met.truncated_at));
  say(met.text_ids, "slice is", "slices are", "of processes whose id is no number");
  say(met.without_time, "slice lacks", "slices lack", "a usable time and is left out");
  say(met.unmatched_begins, "slice begins or ends", "slices begin or end", "without the other and are left out");
  say(counts.overlapping, "slice crosses", "slices cross", "the end of the one around it on its thread");
  if (index.activity().has_launches)
    say(counts.work_without_launch, "piece of GPU work has", "pieces of GPU work have", "no recorded launch");
  say(counts.copies_without_call, "copy has", "copies have", "no recorded call: how long the host waited is not known");
  say(counts.copies_without_work, "call that copies has", "calls that copy have", "no record on the GPU");
  if (index.gpus().empty()) out.push_back("the trace has no GPU work");
}

void find(const TraceIndex& index, AnalysisReport& report) {
  for (const rules::Rule& rule : rules::all_rules())
    rule.find(index, rule.of_copies ? report.hotspots : report.findings);
  rules::Grouping reads(index, "explicit_read");
  for (const Transfer& transfer : index.transfers()) {
    if (transfer.is_explicit() && transfer.call >= 0) reads.add(transfer);
  }
  report.explicit_reads = reads.take();
}

using Place = std::tuple<std::string, std::string, std::string, std::vector<std::string>, Direction, HostMemory>;

void merge_findings(std::vector<Finding>& into, std::vector<Finding> from, std::map<Place, std::size_t>& places) {
  for (Finding& finding : from) {
    const Place place(finding.rule, finding.op, finding.frame, finding.chain, finding.direction, finding.memory);
    const auto [entry, is_new] = places.try_emplace(place, into.size());
    if (is_new) {
      into.push_back(std::move(finding));
      continue;
    }
    Finding& known = into[entry->second];
    known.calls += finding.calls;
    known.size += finding.size;
    known.blocked += finding.blocked;
    known.drain += finding.drain;
    known.copying += finding.copying;
    known.in_steps += finding.in_steps;
    // Sentences with figures are of one file.
    if (!known.text.empty() && finding.calls > 0) known.text = fmt::format("{} calls in several files", known.calls);
  }
}

void merge_counts(AnalysisReport& into, const AnalysisReport& from) {
  const auto sum = [](Count& a, const Count& b) {
    a.calls += b.calls;
    a.blocked += b.blocked;
  };
  sum(into.sync_h2d, from.sync_h2d);
  sum(into.sync_d2h, from.sync_d2h);
  sum(into.scalar_reads, from.scalar_reads);
  sum(into.explicit_copies, from.explicit_copies);
  sum(into.device_copies, from.device_copies);
  into.span += from.span;
  into.events += from.events;
  into.steps += from.steps;
  into.step_time += from.step_time;
  into.virtual_time = into.virtual_time || from.virtual_time;
  for (const CopyRow& row : from.copies) {
    const auto known = std::ranges::find_if(into.copies, [&](const CopyRow& each) {
      return each.synchronous == row.synchronous && each.direction == row.direction && each.memory == row.memory;
    });
    if (known == into.copies.end()) {
      into.copies.push_back(row);
      continue;
    }
    known->calls += row.calls;
    known->size += row.size;
    known->gpu += row.gpu;
    known->blocked += row.blocked;
  }
}

}  // namespace

AnalysisReport make_report(const TraceIndex& index) {
  AnalysisReport report;
  describe(index, report);
  count_copies(index, report);
  find(index, report);
  warn(index, report);
  sort_hotspots(report, HotspotSort::blocked);
  return report;
}

AnalysisReport merge_reports(std::vector<AnalysisReport> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  AnalysisReport all;
  all.source = fmt::format("{} files", parts.size());
  all.format = parts.front().format;
  std::map<Place, std::size_t> hotspots, reads, findings;
  for (const AnalysisReport& part : parts) {
    if (part.format != all.format) all.format = "several tools";
    merge_counts(all, part);
    merge_findings(all.hotspots, part.hotspots, hotspots);
    merge_findings(all.explicit_reads, part.explicit_reads, reads);
    merge_findings(all.findings, part.findings, findings);
    for (const std::string& warning : part.warnings) all.warnings.push_back(part.source + ": " + warning);
    for (GpuRow gpu : part.gpus) all.gpus.push_back(std::move(gpu));
  }
  all.parts = std::move(parts);
  sort_hotspots(all, HotspotSort::blocked);
  return all;
}

HotspotSort parse_hotspot_sort(std::string_view text) {
  static constexpr std::string_view kNames[] = {"blocked", "calls", "bytes", "drain", "copy"};
  const auto found = std::ranges::find(kNames, text);
  FERRY_CHECK(found != std::end(kNames), InvalidArgument,
              "'{}' is no order of hotspots; known: blocked, calls, bytes, drain, copy", text);
  return static_cast<HotspotSort>(found - std::begin(kNames));
}

void sort_hotspots(AnalysisReport& report, HotspotSort sort) {
  const auto figure = [sort](const Finding& finding) {
    switch (sort) {
      case HotspotSort::calls:
        return finding.calls;
      case HotspotSort::bytes:
        return finding.size.count;
      case HotspotSort::drain:
        return finding.drain.count();
      case HotspotSort::copy:
        return finding.copying.count();
      case HotspotSort::blocked:
        break;
    }
    return finding.blocked.count();
  };
  std::ranges::stable_sort(report.hotspots, [&](const Finding& a, const Finding& b) { return figure(a) > figure(b); });
}

AnalysisReport first_rows(AnalysisReport report, std::size_t top) {
  report.hotspots.resize(std::min(top, report.hotspots.size()));
  report.explicit_reads.resize(std::min(top, report.explicit_reads.size()));
  std::map<std::string, std::size_t> of_rule;
  std::erase_if(report.findings, [&](const Finding& finding) { return ++of_rule[finding.rule] > top; });
  for (AnalysisReport& part : report.parts) part = first_rows(std::move(part), top);
  return report;
}

std::string_view direction_text(Direction direction) {
  switch (direction) {
    case Direction::host_to_device:
      return "CPU->GPU";
    case Direction::device_to_host:
      return "GPU->CPU";
    case Direction::device_to_device:
      return "GPU->GPU";
    case Direction::host_to_host:
      return "CPU->CPU";
    case Direction::unknown:
      break;
  }
  return "unknown";
}

std::string_view short_direction(Direction direction) {
  switch (direction) {
    case Direction::host_to_device:
      return "h2d";
    case Direction::device_to_host:
      return "d2h";
    case Direction::device_to_device:
      return "d2d";
    case Direction::host_to_host:
      return "h2h";
    case Direction::unknown:
      break;
  }
  return "unknown";
}

std::string_view memory_text(HostMemory memory) {
  switch (memory) {
    case HostMemory::pageable:
      return "pageable";
    case HostMemory::pinned:
      return "pinned";
    case HostMemory::managed:
      return "managed";
    case HostMemory::unknown:
      break;
  }
  return "";
}

std::string place_text(const Finding& finding) {
  std::string text = finding.op.empty() ? "" : finding.op;
  if (!finding.frame.empty()) text += (text.empty() ? "" : " at ") + finding.frame;
  if (text.empty() && !finding.thread.empty()) text = finding.thread;
  return text.empty() ? "an unknown place" : text;
}

}  // namespace ferry::profiler::analysis_report
