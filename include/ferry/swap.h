// MemoryBudget: training inside less device memory than it needs. Two lines:
//
//   #include <ferry/swap.h>
//   MemoryBudget budget{"5GiB"};
//
// While it lives, reserved memory of the device never exceeds the budget. What does not fit is swapped to pinned host
// memory, or dropped and recomputed, whichever costs less, with the same results bit for bit. The first iterations
// evict by a policy; one that repeats is planned: what leaves, when, and when it is back. An iteration ends with
// Optimizer::step or next_iteration(). The environment variable FERRY_MEMORY_BUDGET gives every Runtime a budget.
//
// Never dropped, but swapped: parameters, optimizer state, tensors changed in place, tensors copied from elsewhere.
// Memory that was taken before the budget began counts against it, and leaves only once an op has used it.
//
// Thread-safety: op calls of several threads are carried out one after the other under a budget.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <ferry/device.h>
#include <ferry/units.h>

namespace ferry {

class Runtime;

// How memory is given up.
enum class EvictionMethods : std::uint8_t { recompute, swap, both };

struct MemoryBudgetOptions {
  // "5GiB", bytes, or a part of the device's capacity, "80%". Empty: no limit but the device's own; tensors are evicted
  // only when it has no memory left (`on_out_of_memory` of other frameworks).
  std::string size{};
  Device device = gpu::device;
  EvictionMethods methods = EvictionMethods::both;
  // dtr, dtr_local, msps, lru, largest, random or hybrid (docs/swap.md): who leaves while there is no plan.
  std::string policy = "hybrid";
  // Eviction starts above so much allocated memory; 0: where the budget ends.
  Bytes threshold{};
  // Smaller storages stay.
  Bytes minimum_evictee_size{};
  // Look at a random √n of the candidates instead of all.
  bool sqrt_sampling = false;
  // Most pinned host memory for swapped tensors; 0: the machine's.
  Bytes host_limit{};
  // Where more than host_limit is swapped to: a file that is made at this path, where none may be, and is gone at the
  // end. Empty: nowhere.
  std::string file{};
  // Iterations that repeat are planned.
  bool plans = true;
  // How long the planner searches, as a multiple of about a second a plan: with less, programs that change often
  // are planned sooner; with more, plans may be better. 0: what FERRY_PLANNING_EFFORT says, else 1.
  double planning_effort = 0;
  std::uint64_t seed = 1;
};

// Since the budget began.
struct MemoryBudgetStats {
  Bytes budget{};
  std::int64_t evictions = 0;       // storages that left the device
  std::int64_t recomputations = 0;  // ops that ran again
  Nanoseconds recompute_time{};     // of the device
  Bytes bytes_out{}, bytes_in{};    // swapped
  Bytes bytes_moved{};              // within the device: so that free memory lies in one place, to where a plan has it
  std::int64_t iterations = 0, planned_iterations = 0;
  std::int64_t plans = 0;             // made
  std::int64_t tracked_storages = 0;  // now
  std::int64_t decisions = 0;         // made by the policy
  Nanoseconds decision_time{};        // host time of them
};

class [[nodiscard]] MemoryBudget {
 public:
  // Of the calling thread's runtime. Throws: InvalidArgument for a size or an effort that is none, an unknown policy or
  // device, a second budget for one device; OutOfMemory when more than that is allocated already.
  explicit MemoryBudget(std::string_view size);
  explicit MemoryBudget(Bytes size);
  explicit MemoryBudget(MemoryBudgetOptions options);
  MemoryBudget(Runtime& runtime, MemoryBudgetOptions options);
  // What was swapped out or dropped comes back when it is used, within the device's own capacity; what only a
  // recomputation gives is recomputed now if it may be. Never throws.
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The iteration ends here. Loops without an Optimizer call it.
  void next_iteration();
  MemoryBudgetStats stats() const;
  // The plan in use: each storage, its idle window, the cost of each choice, and why. Says so when there is none.
  std::string explain() const;
  // The plan in use as JSON, empty without one; and its use from now on. A plan for other iterations than those that
  // follow is dropped, and a new one is made. Throws: ParseError.
  std::string save_plan() const;
  void load_plan(std::string_view json);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferry
