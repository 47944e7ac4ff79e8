#include "profiler/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "profiler/event_table.h"
#include "profiler/work_index.h"

namespace ferry::profiler {
namespace {

// The recorder's owner states when it was on; a trace without that lasts from its first record to its last.
Interval bounds_of(const trace::Trace& trace) {
  if (trace.end > trace.begin) return {trace.begin, trace.end};
  Interval bounds{Nanoseconds::max(), Nanoseconds::min()};
  const auto extend = [&](const auto& records) {
    for (const auto& record : records) {
      bounds.begin = std::min(bounds.begin, record.begin);
      bounds.end = std::max(bounds.end, record.end);
    }
  };
  extend(trace.ops);
  extend(trace.copies);
  extend(trace.work);
  extend(trace.scopes);
  return bounds.begin <= bounds.end ? bounds : Interval{};
}

Nanoseconds computation_of(const trace::Trace& trace, const WorkIndex& index, Interval bounds) {
  std::vector<Interval> intervals;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::kernel && work.device.is_gpu()) intervals.push_back({work.begin, work.end});
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (trace.ops[i].device.is_cpu()) index.append_cpu_intervals(static_cast<trace::OpIndex>(i), intervals);
  }
  return covered(std::move(intervals), bounds);
}

void describe_place(const trace::Trace& trace, Summary& summary) {
  for (const trace::DeviceInfo& info : trace.devices) {
    if (!info.device.is_gpu()) continue;
    summary.place += (summary.place.empty() ? "" : ", ") + info.name;
    summary.virtual_time = summary.virtual_time || info.virtual_time;
  }
  if (summary.place.empty()) summary.place = "cpu";
}

void sum_copies(const trace::Trace& trace, const WorkIndex& index, Summary& summary) {
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.from == copy.to) continue;
    const CallTime time = index.time_of(copy);
    summary.memcpy.add_call(time.cpu, time.gpu);
    (copy.synchronous ? summary.memcpy_sync : summary.memcpy_async).add_call(time.cpu, time.gpu);
  }
}

std::vector<MemoryRow> memory_rows(const trace::Trace& trace) {
  std::vector<MemoryRow> rows;
  for (const trace::DeviceInfo& info : trace.devices) {
    MemoryRow& row = rows.emplace_back();
    row.device = info;
    for (const trace::MemorySample& sample : trace.memory) {
      if (sample.device != info.device) continue;
      row.device.peak_allocated = std::max(row.device.peak_allocated, sample.allocated);
      row.device.peak_reserved = std::max(row.device.peak_reserved, sample.reserved);
    }
    for (const trace::CopyRecord& copy : trace.copies) {
      if (copy.from == copy.to) continue;
      if (copy.to == info.device) row.to_device += copy.size;
      if (copy.from == info.device) row.from_device += copy.size;
    }
  }
  return rows;
}

std::vector<ExplicitRead> explicit_reads(const trace::Trace& trace) {
  std::vector<ExplicitRead> reads;
  std::map<std::tuple<trace::StringIndex, trace::SiteIndex, Device, Device>, std::size_t> known;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.cause == trace::CopyCause::implicit || copy.cause == trace::CopyCause::swap || copy.from == copy.to)
      continue;
    const auto key = std::tuple(copy.op_name, copy.site, copy.from, copy.to);
    const auto [entry, is_new] = known.try_emplace(key, reads.size());
    if (is_new) {
      reads.push_back({.op = copy.op_name,
                       .site = copy.site,
                       .scope = copy.scope,
                       .tensor = copy.tensor,
                       .from = copy.from,
                       .to = copy.to,
                       .cause = copy.cause});
    }
    ExplicitRead& read = reads[entry->second];
    ++read.calls;
    read.size += copy.size;
    read.drain += copy.drain;
    read.transfer += copy.transfer;
  }
  std::ranges::stable_sort(reads, std::ranges::greater{}, &ExplicitRead::blocked);
  return reads;
}

ReadTotals totals_of(const std::vector<ExplicitRead>& reads) {
  ReadTotals totals;
  for (const ExplicitRead& read : reads) {
    if (read.cause != trace::CopyCause::fetch) continue;
    totals.calls += read.calls;
    totals.drain += read.drain;
    totals.transfer += read.transfer;
  }
  return totals;
}

std::set<std::uint32_t> threads_of(const trace::Trace& trace) {
  std::set<std::uint32_t> threads;
  for (const auto& op : trace.ops) threads.insert(op.thread);
  for (const auto& copy : trace.copies) threads.insert(copy.thread);
  for (const auto& scope : trace.scopes) threads.insert(scope.thread);
  return threads;
}

}  // namespace

void Figures::add_call(Nanoseconds cpu_time, Nanoseconds gpu_time) {
  const Nanoseconds time = cpu_time + gpu_time;
  min = calls == 0 ? time : std::min(min, time);
  max = std::max(max, time);
  ++calls;
  cpu += cpu_time;
  gpu += gpu_time;
}

double Summary::ratio(Nanoseconds part) const {
  return total.count() == 0 ? 0.0 : static_cast<double>(part.count()) / static_cast<double>(total.count());
}

Summary summarize(const trace::Trace& trace, const ReportOptions& options) {
  const WorkIndex index(trace);
  const Interval bounds = bounds_of(trace);
  Summary summary;
  describe_place(trace, summary);
  summary.total = bounds.end - bounds.begin;
  summary.computation = computation_of(trace, index, bounds);
  sum_copies(trace, index, summary);
  if (options.per_thread) {
    for (const std::uint32_t thread : threads_of(trace)) {
      summary.tables.push_back(event_table(trace, index, options.sort, thread));
    }
  } else {
    summary.tables.push_back(event_table(trace, index, options.sort, -1));
  }
  summary.memory = memory_rows(trace);
  summary.reads = explicit_reads(trace);
  summary.fetches = totals_of(summary.reads);
  summary.copy_check = check_copies(trace, options.activities);
  summary.findings = options.findings.empty() ? find_hotspots(trace) : options.findings;
  return summary;
}

Placement placement_of(const trace::Trace& trace, const trace::Hotspot& hotspot) {
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.synchronous && copy.op_name == hotspot.op_name && copy.site == hotspot.site && copy.from == hotspot.from &&
        copy.to == hotspot.to) {
      return {copy.op >= 0 ? trace.ops[static_cast<std::size_t>(copy.op)].device : copy.to, copy.placement};
    }
  }
  return {hotspot.to, trace::PlacementCause::default_device};
}

std::string device_label(const trace::Trace& trace, Device device) {
  if (device.is_cpu()) return "CPU";
  const auto gpus = std::ranges::count_if(trace.devices, [](const auto& info) { return info.device.is_gpu(); });
  return gpus > 1 ? "GPU:" + std::to_string(static_cast<int>(device.index)) : "GPU";
}

}  // namespace ferry::profiler
