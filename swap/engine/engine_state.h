// What the parts of an engine share: its options, the device's time so far, and what is counted. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include <ferry/device.h>
#include <ferry/units.h>
#include "swap/link.h"
#include "swap/policy.h"
#include "swap/victim_pool.h"

namespace ferry::swap {

struct EngineOptions {
  Device device = gpu::device;
  Bytes budget{};  // 0: none but the device's capacity
  Methods methods = Methods::both;
  std::string policy = "hybrid";
  Bytes threshold{};  // 0: none
  VictimPool::Options victims{};
  Link link{};
  bool plans = true;
  double planning_effort = 1;  // PlannerOptions::effort
};

struct EngineStats {
  std::int64_t evictions = 0, recomputations = 0, decisions = 0;
  Nanoseconds recompute_time{}, decision_time{};
  Bytes bytes_out{}, bytes_in{}, bytes_moved{};
  Bytes bytes_placed{};  // of copies in that lay elsewhere first
  std::int64_t iterations = 0, planned_iterations = 0, plans = 0;
  std::int64_t placed = 0, displaced = 0;  // storages that found their plan's address, and that did not
  std::int64_t tracked = 0;
};

struct EngineState {
  const EngineOptions options;
  EngineStats stats{};
  Nanoseconds now{};      // device time of all ops so far
  bool finished = false;  // the budget is over: nothing leaves any more
};

}  // namespace ferry::swap
