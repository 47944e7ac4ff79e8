// The host's clock of a program that runs with a simulated GPU: it moves only when work is modelled, so that every run
// prints the same times. Each host thread has its own time, and starts at the latest that any had reached by then.
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <chrono>
#include <memory>

#include "src/device/driver.h"

namespace ferry {

class VirtualClock final : public Clock {
 public:
  VirtualClock();
  ~VirtualClock() override;
  Nanoseconds now() const override;
  bool is_virtual() const override { return true; }
  // The calling thread spends `duration` on the host.
  void advance(Nanoseconds duration);
  // The calling thread waits until `time`; no effect if that has passed.
  void advance_to(Nanoseconds time);

 private:
  struct Threads;
  Nanoseconds& mine() const;

  std::uint64_t id_;  // never reused, so that a thread's cached lookup cannot outlive its clock
  std::unique_ptr<Threads> threads_;
};

// Monotonic wall time since the process' first one was made: real devices and the host show the same time.
class RealClock final : public Clock {
 public:
  Nanoseconds now() const override;
  bool is_virtual() const override { return false; }

 private:
  static std::chrono::steady_clock::time_point first();

  std::chrono::steady_clock::time_point start_ = first();
};

}  // namespace ferry
