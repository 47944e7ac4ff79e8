// Replays a recorded iteration under a budget with an eviction policy, on the virtual clock.
#pragma once

#include <optional>
#include <string>

#include "swap/executor.h"
#include "swap/policy.h"
#include "swap/victim_pool.h"

namespace ferry::swap {

struct ReplayOptions {
  Bytes budget{};
  std::string policy = "dtr";
  Methods methods = Methods::recompute;
  Link link{};        // needed for swapping
  Bytes threshold{};  // eviction starts above it; 0: at the budget
  VictimPool::Options victims{};
  double time_limit = 2;  // times the unconstrained time; above it a run counts as thrashing. 0: none
  Program* record = nullptr;
};

// Not feasible: memory does not suffice, or the time limit is passed.
// Counting is that of the simulator of the DTR paper: a released storage is dropped at once, what was recomputed stays
// until it is evicted, an op that runs again makes all its outputs, kept tensors are resident at the end.
// Throws: InvalidArgument for an unknown policy or for swapping without a link.
Cost replay(const Iteration& iteration, const ReplayOptions& options);

}  // namespace ferry::swap
