#include "src/memory/thread_counters.h"

#include <mutex>
#include <span>
#include <vector>

namespace ferry::memory {
namespace {

// Slots of threads that ended, for the next ones. Never destroyed: threads may end after static destruction.
struct FreeSlots {
  std::mutex mutex;
  std::vector<int> ended;
  std::atomic<int> next{0};
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
  // The last slot, which is shared, is claimed again and again.
  const int slot = slots.next;
  if (slot < kThreadSlots - 1) slots.next = slot + 1;
  return slot;
}

}  // namespace

int claim_thread_slot() {
  thread_local const SlotOwner owner{take_slot()};
  return thread_slot_cache = owner.slot;
}

int claimed_thread_slots() { return free_slots().next.load(std::memory_order_acquire); }

AllocationCounts ThreadCounters::sum() const noexcept {
  AllocationCounts total;
  const auto add_slot = [&](const Slot& slot) {
    total.bytes += slot.bytes.load(std::memory_order_relaxed);
    total.allocations += slot.allocations.load(std::memory_order_relaxed);
    total.deallocations += slot.deallocations.load(std::memory_order_relaxed);
  };
  for (const Slot& slot : std::span(slots_).first(static_cast<std::size_t>(claimed_thread_slots()))) add_slot(slot);
  add_slot(slots_.back());
  return total;
}

}  // namespace ferry::memory
