// Puts each of some ops on one of two devices so that the sum of what ops and copies take is least.
//
// A value is made in one place and read in others; it is copied once to each place that reads it and where it was not
// made. That sum is a cut of a graph: ops on the GPU on the side of the source, those on the CPU on the side of the
// sink, and for each value two more vertices, "read on the CPU" and "read on the GPU". The least cut is found exactly
// (Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970).
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/device.h>
#include <ferry/units.h>

namespace ferry::placement {

struct CutProblem {
  // What stands for a place instead of a node, where a value is made or read by something that does not move.
  static constexpr std::int32_t kCpu = -1, kGpu = -2;

  struct Node {
    Nanoseconds cpu{}, gpu{};  // what it takes there
    bool may_be_cpu = true, may_be_gpu = true;
  };
  struct Value {
    std::int32_t maker = kCpu;
    std::vector<std::int32_t> readers{};
    Nanoseconds to_cpu{}, to_gpu{};  // what its copy takes
  };
  std::vector<Node> nodes{};
  std::vector<Value> values{};
};

struct Cut {
  std::vector<DeviceType> places{};  // of the nodes
  Nanoseconds cost{};
};

// Of any assignment. Requires: a place for each node.
Nanoseconds cost_of(const CutProblem& problem, const std::vector<DeviceType>& places);

// Among assignments of equal cost one with the most nodes on the GPU. Requires: each node may be somewhere; times are
// not negative.
Cut minimum_cut(const CutProblem& problem);

}  // namespace ferry::placement
