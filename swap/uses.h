// When each storage of an iteration is used, and what it would cost to recompute it for a use.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/iteration.h"

namespace ferry::swap {

// Computed once for many trials. Not for several threads at once: it remembers answers.
class Uses {
 public:
  static constexpr Nanoseconds kImpossible = Nanoseconds::max();

  explicit Uses(const Iteration& iteration);

  // The first op from `from` on that reads the storage; ops(): at the end of the iteration; beyond(): never.
  OpIndex next(StorageIndex storage, OpIndex from) const;
  OpIndex ops() const { return static_cast<OpIndex>(starts_.size()) - 1; }
  OpIndex beyond() const { return ops() + 1; }
  // Op time before `op` without a budget.
  Nanoseconds start(OpIndex op) const { return starts_[static_cast<std::size_t>(op < ops() ? op : ops())]; }

  // Time of the ops that must run to have the storage again at `use`: the one that made it, and those that made what
  // is not used any more by then. What is still used later is taken as there, since it has to come back anyway.
  // kImpossible: something of it cannot be recomputed, or far too much would have to be.
  Nanoseconds recompute_cost(StorageIndex storage, OpIndex use) const;
  OpIndex producer(StorageIndex storage) const;

 private:
  Nanoseconds walk_costs(StorageIndex storage, OpIndex use) const;
  bool inputs_of(StorageIndex storage, OpIndex use, std::vector<StorageIndex>& missing, Nanoseconds& sum) const;

  const Iteration& iteration_;
  std::vector<Nanoseconds> starts_;
  std::vector<std::size_t> begin_;
  std::vector<OpIndex> uses_;  // by storage, ascending
  mutable std::vector<std::uint32_t> seen_;
  struct Known {
    OpIndex use = kNone;
    Nanoseconds cost{};
  };
  mutable std::uint32_t walk_ = 0;
  static constexpr Nanoseconds kUnknown{-1};
  mutable std::vector<Nanoseconds> costs_;  // for each of uses_
  mutable std::vector<Known> known_;        // the last answer for another op, by storage
};

}  // namespace ferry::swap
