// A plan for an iteration under a budget, as data: steps to take, what they cost, and the reasons by storage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "swap/bound.h"
#include "swap/iteration.h"
#include "swap/policy.h"
#include "swap/program.h"

namespace ferry::swap {

enum class Choice : std::uint8_t { keep, swap, recompute };

// Ops of the iteration between which a storage is away.
struct Window {
  Choice choice = Choice::recompute;  // how it comes back
  OpIndex leaves_after = kNone;       // the last op before its memory is given up
  OpIndex back_before = kNone;        // the op before which it is recomputed, or its copy in starts
  OpIndex needed_by = kNone;          // the first op of the iteration that reads it then; ops.size(): the end
  bool operator==(const Window&) const = default;
};

// Why a storage is treated as it is. Costs are those of its longest idle window.
struct StoragePlan {
  StorageIndex storage = kNone;
  Choice choice = Choice::keep;
  std::vector<Window> windows{};               // in which it is away; empty: it is kept
  OpIndex idle_from = kNone, idle_to = kNone;  // its longest idle window, between these ops
  Nanoseconds idle{};                          // op time in it
  Nanoseconds recompute_cost{};                // max(): impossible
  Nanoseconds swap_cost{};                     // both copies; max(): no link
};

struct Plan {
  std::uint64_t fingerprint = 0;  // of the iteration
  Bytes budget{};
  Methods methods = Methods::recompute;
  Link link{};
  Program program{};
  Cost cost{};
  Nanoseconds base_time{};  // without a budget
  Bound bound{};            // what no plan can beat

  // How far it may be from the best: time ÷ bound - 1.
  double gap() const { return static_cast<double>(cost.time.count()) / static_cast<double>(bound.time.count()) - 1; }
};

// Whether the plan was made for such an iteration. If not, it must not be used.
bool matches(const Plan& plan, const Iteration& iteration);

// Host copies as the plan's program makes them (a positive size) and gives them up (its negative), in its order.
std::vector<std::int64_t> host_copies(const Plan& plan, const Iteration& iteration);

// Each storage that is idle for at least one op, largest first.
std::vector<StoragePlan> decisions(const Plan& plan, const Iteration& iteration);

// "conv2d 17", the op that made it, where the recording has no name for it.
std::string storage_name(const Iteration& iteration, StorageIndex storage);
// Why `it` was chosen, for a reader.
std::string reason(const StoragePlan& it, const Plan& plan, const Iteration& iteration);

// A table of them for a reader, and the plan's figures above it: window, cost of each choice, why. `lines`: at most so
// many storages. Requires: matches.
std::string explain(const Plan& plan, const Iteration& iteration, std::size_t lines = 50);

std::string plan_to_json(const Plan& plan, const Iteration& iteration);
// `name` (a file's) stands in errors. The cost is computed anew.
// Throws: ParseError for text that is no plan or was made for another iteration, or does not work.
Plan plan_from_json(std::string_view text, std::string_view name, const Iteration& iteration);

}  // namespace ferry::swap
