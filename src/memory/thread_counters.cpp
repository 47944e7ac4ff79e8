#include "src/memory/thread_counters.h"

#include <mutex>
#include <vector>

namespace ferry::memory {
namespace {

// Slots of threads that ended, for the next ones. Never destroyed: threads may end after static destruction.
struct FreeSlots {
  std::mutex mutex;
  std::vector<int> ended;
  int next = 0;
};

FreeSlots& free_slots() {
  static auto* slots = new FreeSlots;
  return *slots;
}

struct SlotOwner {
  ~SlotOwner() {
    thread_slot_cache = kThreadSlots - 1;  // for what this thread still frees
    if (slot == kThreadSlots - 1) return;
    const std::lock_guard lock(free_slots().mutex);
    free_slots().ended.push_back(slot);
  }
  int slot;
};

int take_slot() {
  FreeSlots& slots = free_slots();
  const std::lock_guard lock(slots.mutex);
  if (!slots.ended.empty()) {
    const int slot = slots.ended.back();
    slots.ended.pop_back();
    return slot;
  }
  slots.ended.reserve(kThreadSlots);  // so that the end of a thread never allocates
  return slots.next < kThreadSlots - 1 ? slots.next++ : kThreadSlots - 1;
}

}  // namespace

int claim_thread_slot() {
  thread_local const SlotOwner owner{take_slot()};
  return thread_slot_cache = owner.slot;
}

AllocationCounts ThreadCounters::sum() const noexcept {
  AllocationCounts total;
  for (const Slot& slot : slots_) {
    total.bytes += slot.bytes.load(std::memory_order_relaxed);
    total.allocations += slot.allocations.load(std::memory_order_relaxed);
    total.deallocations += slot.deallocations.load(std::memory_order_relaxed);
  }
  return total;
}

}  // namespace ferry::memory
