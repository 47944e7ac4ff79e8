// Joins ops and copies to the work they enqueued, and splits their time between host and device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/trace/trace.h"

namespace ferry::profiler {

struct Interval {
  Nanoseconds begin{}, end{};
};

// Host and device time of one call.
struct CallTime {
  Nanoseconds cpu{}, gpu{};
};

// Refers to the trace: it must outlive this.
class WorkIndex {
 public:
  explicit WorkIndex(const trace::Trace& trace);

  // Work records of a correlation, as indices into trace.work.
  std::span<const std::pair<std::uint64_t, std::size_t>> work_of(std::uint64_t correlation) const;
  // Copies of an op, as indices into trace.copies.
  std::span<const std::pair<trace::OpIndex, std::size_t>> copies_of(trace::OpIndex op) const;

  CallTime time_of(const trace::CopyRecord& copy) const;
  CallTime time_of_op(trace::OpIndex op) const;

  // Host intervals in which a CPU op computed: its own without its copies'.
  void append_cpu_intervals(trace::OpIndex op, std::vector<Interval>& out) const;

 private:
  Nanoseconds device_time(std::uint64_t correlation) const;

  const trace::Trace& trace_;
  std::vector<std::pair<std::uint64_t, std::size_t>> work_;
  std::vector<std::pair<trace::OpIndex, std::size_t>> copies_;
};

// Length of the union of the intervals within [bounds.begin, bounds.end).
Nanoseconds covered(std::vector<Interval> intervals, Interval bounds);

}  // namespace ferry::profiler
