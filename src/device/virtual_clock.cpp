#include "src/device/virtual_clock.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace ferry {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

// Thread-local state has no destructor on purpose: a clock may be asked while a thread's other objects are destroyed.
// Threads are numbered here because the system reuses its thread ids, and a new thread has a time of its own.
std::uint64_t thread_number() {
  thread_local std::uint64_t number = 0;
  if (number == 0) number = next_number();
  return number;
}

struct Lookup {
  std::uint64_t clock = 0;
  Nanoseconds* time = nullptr;
};
thread_local Lookup last_lookup;

}  // namespace

struct VirtualClock::Threads {
  std::atomic<Nanoseconds::rep> latest{0};  // that any thread has reached
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Nanoseconds> times;  // references stay valid as it grows

  void move(Nanoseconds& mine, Nanoseconds time) {
    mine = time;
    Nanoseconds::rep known = latest.load(std::memory_order_relaxed);
    while (known < time.count() && !latest.compare_exchange_weak(known, time.count(), std::memory_order_relaxed)) {
    }
  }
};

VirtualClock::VirtualClock() : id_(next_number()), threads_(std::make_unique<Threads>()) {}
VirtualClock::~VirtualClock() = default;

Nanoseconds& VirtualClock::mine() const {
  if (last_lookup.clock != id_) {
    const std::lock_guard lock(threads_->mutex);
    // Work that is given to a new thread begins after what led to it.
    const Nanoseconds start(threads_->latest.load(std::memory_order_relaxed));
    last_lookup = {id_, &threads_->times.try_emplace(thread_number(), start).first->second};
  }
  return *last_lookup.time;
}

Nanoseconds VirtualClock::now() const { return mine(); }

void VirtualClock::advance(Nanoseconds duration) {
  Nanoseconds& now = mine();
  threads_->move(now, now + duration);
}

void VirtualClock::advance_to(Nanoseconds time) {
  Nanoseconds& now = mine();
  if (time > now) threads_->move(now, time);
}

std::chrono::steady_clock::time_point RealClock::first() {
  static const std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
  return time;
}

Nanoseconds RealClock::now() const { return std::chrono::steady_clock::now() - start_; }

}  // namespace ferry
