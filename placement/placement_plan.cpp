#include "placement/placement_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

using Assignment = std::vector<DeviceType>;  // by unit

struct Candidate {
  Assignment assignment;
  Nanoseconds duration{};
};

class PlanSearch {
 public:
  PlanSearch(const Replay& replay, const PlanOptions& options)
      : replay_(replay), options_(options), units_(placement_units(replay)), problem_(cut_problem(replay, units_)) {
    const trace::Trace& trace = replay.trace();
    for (const trace::DeviceInfo& info : trace.devices) {
      if (info.device != units_.gpu) continue;
      capacity_ = options.capacity == Bytes{} ? info.capacity : options.capacity;
      recorded_peak_ = info.peak_allocated;
    }
    for (const GroupIndex leader : units_.leaders) recorded_.push_back(replay.groups()[at(leader)].device.type);
    // What the trace does not know of, such as tensors made before it began, is there in any placement.
    unseen_ = std::max(recorded_peak_ - replay.peak_on(units_.gpu, places(recorded_)), Bytes{});
    replays_left_ = kReplayedOps / std::max<std::int64_t>(static_cast<std::int64_t>(trace.ops.size()), 1) + 1;
    find_neighbours();
  }

  PlacementPlan run() {
    PlacementPlan plan{.recorded = replay_.trace().end - replay_.trace().begin, .recorded_peak = recorded_peak_};
    plan.must_move = peak(recorded_) > capacity_;
    std::string reason = make_fit();
    if (!reason.empty()) {
      plan.reason = std::move(reason);
      plan.places = replay_.recorded_places();
      plan.predicted = plan.recorded;
      plan.peak = recorded_peak_;
      return plan;
    }
    Candidate best = improved(start());
    undo_what_is_needless(best);
    const bool helps = static_cast<double>((plan.recorded - best.duration).count()) >=
                       options_.least_gain * static_cast<double>(plan.recorded.count());
    if (!helps && !plan.must_move) best = {recorded_, plan.recorded};
    plan.places = places(best.assignment);
    plan.predicted = best.duration;
    plan.peak = peak(best.assignment);
    list_scopes(plan);
    order_scopes(plan);
    return plan;
  }

 private:
  // Ops that the search may replay in all: about a second.
  static constexpr std::int64_t kReplayedOps = 20'000'000;

  Places places(const Assignment& assignment) const { return places_of(replay_, units_, assignment); }
  Bytes peak(const Assignment& assignment) const { return unseen_ + replay_.peak_on(units_.gpu, places(assignment)); }
  bool fits(const Assignment& assignment) const { return capacity_ == Bytes{} || peak(assignment) <= capacity_; }
  Candidate replayed(Assignment assignment) {
    --replays_left_;
    const Nanoseconds duration = replay_.duration(places(assignment));
    return {std::move(assignment), duration};
  }
  bool may_be(std::size_t unit, DeviceType device) const {
    const CutProblem::Node& node = problem_.nodes[unit];
    return device == DeviceType::cpu ? node.may_be_cpu : node.may_be_gpu;
  }

  // Units that read or write one tensor.
  void find_neighbours() {
    neighbours_.resize(units_.leaders.size());
    for (const CutProblem::Value& value : problem_.values) {
      std::vector<std::int32_t> around = value.readers;
      around.push_back(value.maker);
      std::erase_if(around, [](std::int32_t node) { return node < 0; });
      if (around.size() > 1) clusters_.insert(around);
      for (const std::int32_t a : around) {
        for (const std::int32_t b : around) {
          if (a != b) neighbours_[at(a)].insert(at(b));
        }
      }
    }
  }

  // --- capacity -----------------------------------------------------------------------------------------------------

  // The units that must be on the CPU for a tensor to stay off the GPU; nothing where something else brings it there.
  std::optional<std::set<std::size_t>> users_of(trace::TensorIndex tensor) const {
    std::set<std::size_t> users;
    for (const TensorUse& use : replay_.uses(tensor)) {
      if (use.host) continue;
      if (use.op < 0) {
        if (use.explicit_to == units_.gpu) return std::nullopt;
        continue;
      }
      const std::int32_t unit = units_.unit_of[at(replay_.group_of(use.op))];
      if (unit >= 0) {
        users.insert(at(unit));
      } else if (replay_.trace().ops[at(use.op)].device == units_.gpu) {
        return std::nullopt;
      }
    }
    if (users.empty()) return std::nullopt;
    return users;
  }

  // Moves the storages to the CPU that cost least a byte until the rest fits. The reason when it never does.
  std::string make_fit() {
    Assignment current = minimum_cut(problem_).places;
    while (!fits(current)) {
      const std::optional<std::set<std::size_t>> cheapest = cheapest_to_move(current);
      if (!cheapest) {
        return fmt::format(
            "no placement needs less than {} of device memory, and {} are there: what is left is read or written by "
            "ops "
            "that guards or rules keep on the GPU",
            to_string(peak(current)), to_string(capacity_));
      }
      for (const std::size_t unit : *cheapest) problem_.nodes[unit].may_be_gpu = false;
      current = minimum_cut(problem_).places;
    }
    return {};
  }

  std::optional<std::set<std::size_t>> cheapest_to_move(const Assignment& current) {
    constexpr std::size_t kLargest = 8;
    const Bytes now = peak(current);
    const Nanoseconds cost = cost_of(problem_, current);
    std::vector<trace::TensorIndex> by_size;
    for (std::size_t i = 0; i < replay_.trace().tensors.size(); ++i) {
      if (!replay_.uses(static_cast<trace::TensorIndex>(i)).empty())
        by_size.push_back(static_cast<trace::TensorIndex>(i));
    }
    std::ranges::stable_sort(by_size, std::ranges::greater{},
                             [&](trace::TensorIndex i) { return replay_.trace().tensors[at(i)].size; });
    std::set<std::set<std::size_t>> tried;
    std::optional<std::set<std::size_t>> best;
    double least = 0;
    for (const trace::TensorIndex tensor : by_size) {
      if (tried.size() == kLargest) break;
      const std::optional<std::set<std::size_t>> users = users_of(tensor);
      const bool here =
          users && std::ranges::any_of(*users, [&](std::size_t unit) { return current[unit] == DeviceType::gpu; });
      if (!here || !tried.insert(*users).second) continue;
      CutProblem without = problem_;
      for (const std::size_t unit : *users) without.nodes[unit].may_be_gpu = false;
      const Cut cut = minimum_cut(without);
      const Bytes freed = now - peak(cut.places);
      if (freed <= Bytes{}) continue;
      const double price = static_cast<double>((cut.cost - cost).count()) / static_cast<double>(freed.count);
      if (best && price >= least) continue;
      best = users;
      least = price;
    }
    return best;
  }

  // --- candidates ---------------------------------------------------------------------------------------------------

  // The cut with copies counted so many times, and the GPU's kernels, which run beside the host, so much.
  Assignment weighted_cut(double copies, double gpu) const {
    CutProblem problem = problem_;
    const auto scale = [](Nanoseconds& time, double factor) {
      time = Nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
    };
    for (CutProblem::Node& node : problem.nodes) scale(node.gpu, gpu);
    for (CutProblem::Value& value : problem.values) {
      scale(value.to_cpu, copies);
      scale(value.to_gpu, copies);
    }
    return minimum_cut(problem).places;
  }

  // Candidates that fit, shortest first.
  std::vector<Candidate> start() {
    std::set<Assignment> all{recorded_};
    for (const double gpu : {1.0, 0.3}) {
      for (const double copies : {1.0, 0.0, 0.25, 0.5, 2.0, 4.0, 16.0}) all.insert(weighted_cut(copies, gpu));
    }
    for (const DeviceType device : {DeviceType::cpu, DeviceType::gpu}) {
      Assignment same = recorded_;
      for (std::size_t i = 0; i < same.size(); ++i) same[i] = may_be(i, device) ? device : other(device);
      all.insert(std::move(same));
    }
    std::vector<Candidate> candidates;
    for (const Assignment& assignment : all) {
      if (allowed(assignment) && fits(assignment)) candidates.push_back(replayed(assignment));
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::duration);
    return candidates;
  }

  static DeviceType other(DeviceType device) { return device == DeviceType::cpu ? DeviceType::gpu : DeviceType::cpu; }
  bool allowed(const Assignment& assignment) const {
    for (std::size_t i = 0; i < assignment.size(); ++i) {
      if (!may_be(i, assignment[i]) && assignment[i] != recorded_[i]) return false;
      if (!problem_.nodes[i].may_be_gpu && assignment[i] == DeviceType::gpu) return false;
    }
    return true;
  }

  // Small changes of the best candidates, as long as one makes the replay shorter.
  Candidate improved(const std::vector<Candidate>& candidates) {
    constexpr std::size_t kStarts = 3;
    Candidate best = candidates.front();
    for (std::size_t i = 0; i < std::min(kStarts, candidates.size()); ++i) {
      Candidate climbed = candidates[i];
      while (replays_left_ > 0 && (step_by_units(climbed) || step_by_clusters(climbed))) {
      }
      if (climbed.duration < best.duration) best = std::move(climbed);
    }
    return best;
  }

  bool try_assignment(Candidate& current, Assignment changed) {
    if (changed == current.assignment || replays_left_ <= 0 || !allowed(changed)) return false;
    Candidate candidate = replayed(std::move(changed));
    if (candidate.duration >= current.duration || !fits(candidate.assignment)) return false;
    current = std::move(candidate);
    return true;
  }

  // One unit, alone or with a neighbour of the same device.
  bool step_by_units(Candidate& current) {
    bool shorter = false;
    for (std::size_t unit = 0; unit < recorded_.size(); ++unit) {
      const DeviceType before = current.assignment[unit];
      Assignment changed = current.assignment;
      changed[unit] = other(before);
      if (try_assignment(current, changed)) {
        shorter = true;
        continue;
      }
      for (const std::size_t neighbour : neighbours_[unit]) {
        if (changed[neighbour] != before) continue;
        Assignment both = changed;
        both[neighbour] = other(before);
        if (!try_assignment(current, std::move(both))) continue;
        shorter = true;
        break;
      }
    }
    return shorter;
  }

  // All that touch one value.
  bool step_by_clusters(Candidate& current) {
    bool shorter = false;
    for (const std::vector<std::int32_t>& cluster : clusters_) {
      for (const DeviceType device : {DeviceType::cpu, DeviceType::gpu}) {
        Assignment changed = current.assignment;
        for (const std::int32_t unit : cluster) changed[at(unit)] = device;
        shorter = try_assignment(current, std::move(changed)) || shorter;
      }
    }
    return shorter;
  }

  // A line that gains next to nothing is no advice.
  void undo_what_is_needless(Candidate& best) {
    const Nanoseconds recorded = replay_.trace().end - replay_.trace().begin;
    const Nanoseconds least(static_cast<std::int64_t>(options_.least_gain / 5 * static_cast<double>(recorded.count())));
    for (std::size_t unit = 0; unit < recorded_.size(); ++unit) {
      if (best.assignment[unit] == recorded_[unit]) continue;
      Assignment changed = best.assignment;
      changed[unit] = recorded_[unit];
      if (!allowed(changed)) continue;
      Candidate candidate = replayed(std::move(changed));
      if (candidate.duration <= best.duration + least && fits(candidate.assignment)) best = std::move(candidate);
    }
  }

  // --- result -------------------------------------------------------------------------------------------------------

  void list_scopes(PlacementPlan& plan) const {
    const std::vector<Group>& groups = replay_.groups();
    const auto moves = [&](std::size_t i) { return plan.places[i] != groups[i].device; };
    for (const GroupIndex leader : units_.leaders) {
      const Group& group = groups[at(leader)];
      if (!moves(at(leader))) continue;
      const Device device = plan.places[at(leader)];
      const auto same_line = [&](const Group& other) { return other.site == group.site && other.op == group.op; };
      const auto known = std::ranges::find_if(plan.scopes, [&](const PlacedScope& scope) {
        return scope.site == group.site && scope.op == group.op && scope.device == device;
      });
      PlacedScope& scope = known != plan.scopes.end()
                               ? *known
                               : plan.scopes.emplace_back(PlacedScope{device, group.site, group.op, {}, 0});
      scope.calls += static_cast<std::int64_t>(group.ops.size());
      // Some of the line's module paths stay.
      for (std::size_t i = 0; i < groups.size(); ++i) {
        if (!same_line(groups[i]) || groups[i].leader >= 0 || plan.places[i] == device) continue;
        scope.scopes.push_back(group.scope);
        break;
      }
    }
  }

  // The groups that a scope moves.
  void apply(const PlacementPlan& plan, const PlacedScope& scope, Places& places) const {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int32_t unit = units_.unit_of[i];
      if (unit < 0) continue;
      const Group& leader = replay_.groups()[at(units_.leaders[at(unit)])];
      if (leader.site == scope.site && leader.op == scope.op) places[i] = plan.places[i];
    }
  }

  // A reader who stops after some lines has those that gain most. Where the program does not fit before all are there,
  // the order is the program's.
  void order_scopes(PlacementPlan& plan) const {
    constexpr std::size_t kOrdered = 24;
    Places places = replay_.recorded_places();
    for (std::size_t i = 0; i < plan.scopes.size(); ++i) {
      std::size_t next = i;
      if (!plan.must_move && plan.scopes.size() <= kOrdered) {
        Nanoseconds shortest = Nanoseconds::max();
        for (std::size_t j = i; j < plan.scopes.size(); ++j) {
          Places with = places;
          apply(plan, plan.scopes[j], with);
          const Nanoseconds duration = replay_.duration(with);
          if (duration >= shortest) continue;
          shortest = duration;
          next = j;
        }
      }
      std::swap(plan.scopes[i], plan.scopes[next]);
      apply(plan, plan.scopes[i], places);
      plan.scopes[i].predicted = replay_.duration(places);
    }
  }

  const Replay& replay_;
  const PlanOptions& options_;
  PlacementUnits units_;
  CutProblem problem_;
  Assignment recorded_;
  Bytes capacity_{}, recorded_peak_{}, unseen_{};
  std::int64_t replays_left_ = 0;
  std::vector<std::set<std::size_t>> neighbours_;
  std::set<std::vector<std::int32_t>> clusters_;
};

}  // namespace

PlacementPlan plan_placement(const Replay& replay, const PlanOptions& options) {
  return PlanSearch(replay, options).run();
}

}  // namespace ferry::placement
