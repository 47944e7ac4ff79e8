// What no plan can beat: a lower bound on the time of an iteration under a budget, from its instant of highest memory.
#pragma once

#include "swap/iteration.h"
#include "swap/link.h"
#include "swap/policy.h"

namespace ferry::swap {

struct Bound {
  bool feasible = false;  // false: even with all else gone, that instant does not fit
  Nanoseconds time{};
  Bytes must_leave{};  // at that instant
};

// At the unconstrained peak, peak - budget bytes must be away that the op there does not use. Bringing them back takes
// the time of the ops that made them, once for all outputs of an op, or a copy each way: copies are free as far as the
// link carries the bytes out before that instant and back in after it, and stall beyond that. The cheapest choice of
// fractions of storages (a knapsack) is the bound. What is not used any more costs nothing.
Bound lower_bound(const Iteration& iteration, Bytes budget, Methods methods, const Link& link);

}  // namespace ferry::swap
