// The minimum cut's problem of a recorded program.
#include <algorithm>
#include <iterator>
#include <map>

#include "placement/placement_plan.h"

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool is_unit(const Replay& replay, const Group& group, Device gpu) {
  if (!group.movable || group.leader >= 0 || group.site < 0) return false;
  return std::ranges::all_of(group.ops, [&](trace::OpIndex index) {
    const trace::OpRecord& op = replay.trace().ops[at(index)];
    const bool chosen = op.cause == trace::PlacementCause::guard || op.cause == trace::PlacementCause::placement_file;
    return !chosen && op.device == group.device && (op.device.is_cpu() || op.device == gpu);
  });
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Replay& replay, const PlacementUnits& units) : replay_(replay), units_(units) {}

  CutProblem build() {
    problem_.nodes.resize(units_.leaders.size());
    for (std::size_t i = 0; i < replay_.groups().size(); ++i) add_group(i);
    for (std::size_t tensor = 0; tensor < replay_.trace().tensors.size(); ++tensor) {
      add_tensor(static_cast<trace::TensorIndex>(tensor));
    }
    for (auto& [key, times] : values_) {
      problem_.values.push_back({key.first, key.second, times.first, times.second});
    }
    return std::move(problem_);
  }

 private:
  void add_group(std::size_t index) {
    if (units_.unit_of[index] < 0) return;
    const Group& group = replay_.groups()[index];
    CutProblem::Node& node = problem_.nodes[at(units_.unit_of[index])];
    node.may_be_gpu = node.may_be_gpu && group.has_gpu_kernel;
    for (const trace::OpIndex op : group.ops) {
      node.cpu += std::max(replay_.op_cost().on(op, cpu::device), Nanoseconds(0));
      node.gpu += std::max(replay_.op_cost().on(op, units_.gpu), Nanoseconds(0));
    }
  }

  std::int32_t node_of(const TensorUse& use) const {
    const auto fixed = [](Device device) { return device.is_cpu() ? CutProblem::kCpu : CutProblem::kGpu; };
    if (use.op < 0) return fixed(use.explicit_to);
    if (use.host) return CutProblem::kCpu;
    const std::int32_t unit = units_.unit_of[at(replay_.group_of(use.op))];
    return unit >= 0 ? unit : fixed(replay_.trace().ops[at(use.op)].device);
  }

  // Each write makes a value of its own.
  void add_tensor(trace::TensorIndex tensor) {
    const std::vector<TensorUse>& uses = replay_.uses(tensor);
    if (uses.empty()) return;
    const Bytes size = replay_.trace().tensors[at(tensor)].size;
    std::int32_t maker = replay_.first_home(tensor).is_cpu() ? CutProblem::kCpu : CutProblem::kGpu;
    std::vector<std::int32_t> readers;
    for (const TensorUse& use : uses) {
      if (use.read) readers.push_back(node_of(use));
      if (!use.write) continue;
      add_value(maker, std::move(readers), size);
      readers.clear();
      maker = node_of(use);
    }
    add_value(maker, std::move(readers), size);
  }

  void add_value(std::int32_t maker, std::vector<std::int32_t> readers, Bytes size) {
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    std::erase(readers, maker);
    if (readers.empty()) return;
    const CopyCost& cost = replay_.copy_cost();
    const auto time = [&](Device from, Device to) {
      return std::max(cost.issue(from, to, size) + cost.transfer(from, to, size), Nanoseconds(0));
    };
    // Values of a loop that are made and read in the same places are one.
    auto& [to_cpu, to_gpu] = values_[{maker, std::move(readers)}];
    to_cpu += time(units_.gpu, cpu::device);
    to_gpu += time(cpu::device, units_.gpu);
  }

  const Replay& replay_;
  const PlacementUnits& units_;
  CutProblem problem_;
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::pair<Nanoseconds, Nanoseconds>> values_;
};

}  // namespace

PlacementUnits placement_units(const Replay& replay) {
  PlacementUnits units;
  const auto info =
      std::ranges::find_if(replay.trace().devices, [](const trace::DeviceInfo& each) { return each.device.is_gpu(); });
  units.unit_of.assign(replay.groups().size(), -1);
  if (info == replay.trace().devices.end()) return units;
  units.gpu = info->device;
  for (std::size_t i = 0; i < replay.groups().size(); ++i) {
    if (!is_unit(replay, replay.groups()[i], units.gpu)) continue;
    const auto unit = static_cast<std::int32_t>(units.leaders.size());
    units.leaders.push_back(static_cast<GroupIndex>(i));
    std::vector<GroupIndex> open{static_cast<GroupIndex>(i)};
    while (!open.empty()) {
      const GroupIndex group = open.back();
      open.pop_back();
      if (units.unit_of[at(group)] >= 0) continue;
      units.unit_of[at(group)] = unit;
      // One without a kernel for the GPU is on the CPU wherever its leader is.
      std::ranges::copy_if(replay.groups()[at(group)].followers, std::back_inserter(open),
                           [&](GroupIndex follower) { return replay.groups()[at(follower)].has_gpu_kernel; });
    }
  }
  return units;
}

CutProblem cut_problem(const Replay& replay, const PlacementUnits& units) {
  return ProblemBuilder(replay, units).build();
}

Places places_of(const Replay& replay, const PlacementUnits& units, const std::vector<DeviceType>& places) {
  Places all = replay.recorded_places();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int32_t unit = units.unit_of[i];
    if (unit >= 0) all[i] = places[at(unit)] == DeviceType::cpu ? cpu::device : units.gpu;
  }
  return all;
}

}  // namespace ferry::placement
