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
// Threads are numbered here because the system reuses its thread ids, and a new thread starts at zero.
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
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Nanoseconds> times;  // references stay valid as it grows
};

VirtualClock::VirtualClock() : id_(next_number()), threads_(std::make_unique<Threads>()) {}
VirtualClock::~VirtualClock() = default;

Nanoseconds& VirtualClock::mine() const {
  if (last_lookup.clock != id_) {
    const std::lock_guard lock(threads_->mutex);
    last_lookup = {id_, &threads_->times[thread_number()]};
  }
  return *last_lookup.time;
}

Nanoseconds VirtualClock::now() const { return mine(); }
void VirtualClock::advance(Nanoseconds duration) { mine() += duration; }

void VirtualClock::advance_to(Nanoseconds time) {
  Nanoseconds& now = mine();
  now = std::max(now, time);
}

Nanoseconds RealClock::now() const { return std::chrono::steady_clock::now() - start_; }

}  // namespace ferry
