// Advice for a whole program: which ops to put on which device so that the run takes least, inside the GPU's memory.
//
// What one DeviceGuard moves (the calls of an op at a line, with their backward ops) is on one device. The assignment
// that minimises the sum of op and copy times is a minimum cut. That sum knows nothing of what overlaps, so this cut,
// cuts for other weights of the copies, and what small changes make of them are replayed on a virtual clock, and the
// shortest replay wins. What guards and placement files in the program say stays.
#pragma once

#include <string>
#include <vector>

#include "placement/advisor_replay.h"
#include "placement/minimum_cut.h"
#include "src/trace/trace.h"

namespace ferry::placement {

struct PlanOptions {
  Bytes capacity{};  // of the GPU; 0: as the trace says
  // A change that saves a smaller part of the time is no advice: replays err by as much.
  double least_gain = 0.02;
};

// The calls of an op at a line that move to a device.
struct PlacedScope {
  Device device{};
  trace::SiteIndex site = -1;
  trace::StringIndex op = -1;
  std::vector<trace::StringIndex> scopes{};  // module paths; empty: all of that line
  std::int64_t calls = 0;
  Nanoseconds predicted{};  // the whole run with this scope and those before it
};

struct PlacementPlan {
  std::string reason{};                 // why there is no placement that works; empty: there is one
  std::vector<PlacedScope> scopes{};    // in program order; empty: everything stays
  Places places{};                      // of the replay's groups
  Nanoseconds recorded{}, predicted{};  // the whole run
  Bytes recorded_peak{}, peak{};        // of device memory, the second by the lifetimes in the trace
  bool must_move = false;               // the recorded placement does not fit
};

// What plan_placement decides about: each unit is a group that the program may place, with those that follow it.
struct PlacementUnits {
  Device gpu{};
  std::vector<GroupIndex> leaders{};    // by unit
  std::vector<std::int32_t> unit_of{};  // by group; -1: stays
};
PlacementUnits placement_units(const Replay& replay);
// The sum that the cut minimises: node i is unit i.
CutProblem cut_problem(const Replay& replay, const PlacementUnits& units);
Places places_of(const Replay& replay, const PlacementUnits& units, const std::vector<DeviceType>& places);

// Replays of one trace. It must outlive the plan's indices.
PlacementPlan plan_placement(const Replay& replay, const PlanOptions& options = {});

// What to change, for a reader: lines and scopes with the device, time and memory before and after.
std::string plan_text(const Replay& replay, const PlacementPlan& plan);
// The plan as a placement file (placement_file.h). "{"rules": []}" when everything stays.
std::string plan_file(const Replay& replay, const PlacementPlan& plan);

}  // namespace ferry::placement
