// How long each storage of a program has memory of the device: what addresses have to be found for.
//
//   create s, run 0, copy_out s, leave s, run 1, bring_in s, run 2
//   └──────── first residency of s ────────┘     └─ second ─ …
//
// A residency ends where the program's allocations may use its memory: after the copies to and from it have passed, if
// it waits for some.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "swap/iteration.h"
#include "swap/link.h"
#include "swap/program.h"

namespace ferry::swap {

// Half-open, counted in beginnings and ends of residencies.
struct Residency {
  static constexpr std::int32_t kOpen = std::numeric_limits<std::int32_t>::max();

  StorageIndex storage = kNone;
  std::int32_t begin = 0;
  std::int32_t end = kOpen;  // kOpen: it lasts beyond the program
};

struct Residencies {
  std::vector<Residency> all;  // in the order of their beginnings
  std::vector<std::int32_t>
      first;  // by step of the program: the first that begins there or later; one more for the end
};

// Notes them while a program runs.
class ResidencyLog {
 public:
  std::int32_t begin(StorageIndex storage) {
    residencies_.all.push_back({.storage = storage, .begin = now_++});
    return count() - 1;
  }
  void end(std::int32_t residency) { residencies_.all[static_cast<std::size_t>(residency)].end = now_++; }
  // The next step of the program comes.
  void step() { residencies_.first.push_back(count()); }
  Residencies take() {
    step();
    return std::move(residencies_);
  }

 private:
  std::int32_t count() const { return static_cast<std::int32_t>(residencies_.all.size()); }

  std::int32_t now_ = 0;
  Residencies residencies_;
};

// Those of a program that `evaluate` finds feasible. A step begins one for a tensor that is created, for a storage that
// is brought in and had not kept its memory, and for each output of an op that is no view, in the order of Op::outputs;
// that of an output which was there already ends with the op.
// A pinned storage that the iteration releases has memory to its release, although the program counts it to its end.
// Unset: the program is not feasible.
std::optional<Residencies> residencies(const Iteration& iteration, const Program& program, Bytes budget,
                                       const Link& link);

}  // namespace ferry::swap
