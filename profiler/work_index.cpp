#include "profiler/work_index.h"

namespace ferry::profiler {
namespace {

template <class Key>
std::span<const std::pair<Key, std::size_t>> range_of(const std::vector<std::pair<Key, std::size_t>>& index, Key key) {
  const auto [first, last] = std::ranges::equal_range(index, key, {}, &std::pair<Key, std::size_t>::first);
  return {first, last};
}

}  // namespace

WorkIndex::WorkIndex(const trace::Trace& trace) : trace_(trace) {
  for (std::size_t i = 0; i < trace.work.size(); ++i) {
    if (trace.work[i].correlation != 0) work_.emplace_back(trace.work[i].correlation, i);
  }
  for (std::size_t i = 0; i < trace.copies.size(); ++i) {
    if (trace.copies[i].op >= 0) copies_.emplace_back(trace.copies[i].op, i);
  }
  std::ranges::sort(work_);
  std::ranges::sort(copies_);
}

std::span<const std::pair<std::uint64_t, std::size_t>> WorkIndex::work_of(std::uint64_t correlation) const {
  return range_of(work_, correlation);
}

std::span<const std::pair<trace::OpIndex, std::size_t>> WorkIndex::copies_of(trace::OpIndex op) const {
  return range_of(copies_, op);
}

Nanoseconds WorkIndex::device_time(std::uint64_t correlation) const {
  Nanoseconds time{};
  if (correlation == 0) return time;
  for (const auto& [_, i] : work_of(correlation)) {
    if (trace_.work[i].device.is_gpu()) time += trace_.work[i].end - trace_.work[i].begin;
  }
  return time;
}

CallTime WorkIndex::time_of(const trace::CopyRecord& copy) const {
  // A trace without work records (another tool's) still knows how long the host waited for the copy.
  const bool has_work = copy.correlation != 0 && !work_of(copy.correlation).empty();
  const Nanoseconds gpu = has_work ? device_time(copy.correlation) : copy.transfer;
  return {copy.end - copy.begin - std::min(copy.transfer, gpu), gpu};
}

CallTime WorkIndex::time_of_op(trace::OpIndex op) const {
  const trace::OpRecord& record = trace_.ops[static_cast<std::size_t>(op)];
  CallTime time{record.end - record.begin, device_time(record.correlation)};
  for (const auto& [_, i] : copies_of(op)) {
    const trace::CopyRecord& copy = trace_.copies[i];
    const CallTime own = time_of(copy);
    time.gpu += own.gpu;
    time.cpu -= copy.end - copy.begin - own.cpu;
  }
  return time;
}

void WorkIndex::append_cpu_intervals(trace::OpIndex op, std::vector<Interval>& out) const {
  const trace::OpRecord& record = trace_.ops[static_cast<std::size_t>(op)];
  std::vector<Interval> copies;
  for (const auto& [_, i] : copies_of(op)) copies.push_back({trace_.copies[i].begin, trace_.copies[i].end});
  std::ranges::sort(copies, {}, &Interval::begin);
  Nanoseconds from = record.begin;
  for (const Interval& copy : copies) {
    if (copy.begin > from) out.push_back({from, copy.begin});
    from = std::max(from, copy.end);
  }
  if (record.end > from) out.push_back({from, record.end});
}

Nanoseconds covered(std::vector<Interval> intervals, Interval bounds) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  Nanoseconds length{}, reached = bounds.begin;
  for (const Interval& interval : intervals) {
    const Nanoseconds begin = std::max(interval.begin, reached);
    const Nanoseconds end = std::min(interval.end, bounds.end);
    if (end > begin) length += end - begin;
    reached = std::max(reached, end);
  }
  return length;
}

}  // namespace ferry::profiler
