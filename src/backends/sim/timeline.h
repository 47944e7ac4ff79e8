// The virtual times of one simulated GPU: when each stream and each engine has finished what it was given so far.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <array>
#include <vector>

#include "src/device/virtual_clock.h"

namespace ferry::sim {

struct Interval {
  Nanoseconds begin{}, end{};
};

class Timeline {
 public:
  explicit Timeline(VirtualClock& host) : host_(host) {}

  void add_stream() { streams_.push_back(Nanoseconds{0}); }

  // Work that takes `duration` starts when the host has enqueued it and its stream and its engine are free.
  Interval enqueue(StreamId stream, trace::Engine engine, Nanoseconds duration);

  // Later work on `stream` starts at `time` at the earliest.
  void delay(StreamId stream, Nanoseconds time);

  // When work enqueued on `stream` until now has ended.
  Nanoseconds end_of(StreamId stream) const;
  Nanoseconds end_of_all() const;

 private:
  VirtualClock& host_;
  std::vector<Nanoseconds> streams_;
  std::array<Nanoseconds, 3> engines_{};
};

}  // namespace ferry::sim
