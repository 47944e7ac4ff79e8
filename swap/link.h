// The link between device and host: a copy engine each way, copies of a direction one after the other.
#pragma once

#include <algorithm>
#include <cmath>

#include <ferry/units.h>

namespace ferry::swap {

struct Link {
  double out_bytes_per_second = 0, in_bytes_per_second = 0;  // device to host, host to device; 0: no link
  Nanoseconds latency{};                                     // of each copy

  bool exists() const { return out_bytes_per_second > 0 && in_bytes_per_second > 0; }
  Nanoseconds out_time(Bytes bytes) const { return time(bytes, out_bytes_per_second); }
  Nanoseconds in_time(Bytes bytes) const { return time(bytes, in_bytes_per_second); }

 private:
  Nanoseconds time(Bytes bytes, double bytes_per_second) const {
    const double ns = std::ceil(static_cast<double>(bytes.count) / bytes_per_second * 1e9);
    return latency + Nanoseconds(static_cast<Nanoseconds::rep>(ns));
  }
};

// One direction of it, on the virtual clock.
class CopyQueue {
 public:
  // Enqueues a copy that may start at `ready`; returns when it ends.
  Nanoseconds enqueue(Nanoseconds ready, Nanoseconds duration) { return tail_ = std::max(tail_, ready) + duration; }
  Nanoseconds tail() const { return tail_; }

 private:
  Nanoseconds tail_{};
};

}  // namespace ferry::swap
