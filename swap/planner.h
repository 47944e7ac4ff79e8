// Turns a recorded iteration into a plan that keeps a budget: for each storage keep, swap or recompute, when it leaves
// and when it is back. Values in, value out: the same input gives the same plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "swap/bound.h"
#include "swap/iteration.h"
#include "swap/link.h"
#include "swap/plan.h"
#include "swap/policy.h"

namespace ferry::swap {

struct PlannerOptions {
  Bytes budget{};
  Methods methods = Methods::recompute;
  Link link{};         // needed for swapping
  double reserve = 0;  // part of the budget that is left to fragmentation and unplanned allocations
  int trials = 0;      // runs of the search beside schedules of gaps; 0: as many as its length allows in half a second
  double effort = 1;   // with trials 0: a multiple of that time, and of another half a second for schedules of gaps
  std::uint64_t seed = 1;
  bool find_smallest = true;  // if the budget is too small, look for the smallest that is not
};

struct PlanResult {
  std::optional<Plan> plan{};
  std::string reason{};             // why there is none
  std::optional<Bytes> smallest{};  // then: the smallest budget found for which there is one
  int trials = 0;
};

// The plan is never slower than any eviction policy at that budget, nor than any of `candidates` (plans of the same
// iteration, made for any budget) that keeps it.
// Throws: InvalidArgument for swapping without a link, a reserve outside [0, 1), an effort that is not positive.
PlanResult make_plan(const Iteration& iteration, const PlannerOptions& options, std::span<const Plan> candidates = {});

// A plan for each budget; none is slower than one for a smaller budget, whatever the order given.
std::vector<PlanResult> plan_ladder(const Iteration& iteration, PlannerOptions options, std::span<const Bytes> budgets);

// The smallest budget for which a plan was found, within 1 %. make_plan succeeds for it.
Bytes smallest_budget(const Iteration& iteration, const PlannerOptions& options);

}  // namespace ferry::swap
