// Counters of allocations that each thread advances alone, so that counting costs no contended atomic.
//
// Up to 255 threads at a time have a slot of their own, which a new thread takes over from one that ended; further
// threads share one slot with atomic additions. Thread-safety: add from any thread; sums are exact when none adds.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ferry::memory {

// The calling thread's slot: 0 to kThreadSlots - 1, the last one shared.
constexpr int kThreadSlots = 256;
int claim_thread_slot();
// Threads have had the slots below this one, and perhaps the shared one.
int claimed_thread_slots();
// The model saves a call at each use in a shared library; four bytes fit the room that loaders keep for it.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit int thread_slot_cache = -1;
inline int thread_slot() { return thread_slot_cache >= 0 ? thread_slot_cache : claim_thread_slot(); }

struct AllocationCounts {
  std::int64_t bytes = 0;  // in use
  std::int64_t allocations = 0, deallocations = 0;
};

class ThreadCounters {
 public:
  void count_allocation(std::int64_t bytes) noexcept {
    const int index = thread_slot();
    add(slots_[index].bytes, bytes, index);
    add(slots_[index].allocations, 1, index);
  }
  void count_deallocation(std::int64_t bytes) noexcept {
    const int index = thread_slot();
    add(slots_[index].bytes, -bytes, index);
    add(slots_[index].deallocations, 1, index);
  }
  AllocationCounts sum() const noexcept;

 private:
  using Counter = std::atomic<std::int64_t>;
  struct alignas(64) Slot {
    Counter bytes{0}, allocations{0}, deallocations{0};
  };
  static void add(Counter& counter, std::int64_t amount, int index) noexcept {
    if (index < kThreadSlots - 1) {
      counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    } else {
      counter.fetch_add(amount, std::memory_order_relaxed);
    }
  }
  std::array<Slot, kThreadSlots> slots_;
};

}  // namespace ferry::memory
