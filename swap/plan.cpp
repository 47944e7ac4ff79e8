#include "swap/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "swap/uses.h"

namespace ferry::swap {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

// Walks a program and notes when each storage goes and comes back.
class WindowFinder {
 public:
  WindowFinder(const Iteration& iteration, const Uses& uses)
      : iteration_(iteration),
        uses_(uses),
        windows_(iteration.storages.size()),
        open_(iteration.storages.size(), kNone) {}

  std::vector<std::vector<Window>> find(const Program& program) {
    for (const Step& step : program) take(step);
    for (std::size_t s = 0; s < windows_.size(); ++s)
      if (open_[s] != kNone) windows_[s].pop_back();  // it was of no use any more
    return std::move(windows_);
  }

 private:
  void take(const Step& step) {
    switch (step.kind) {
      case Step::Kind::drop:
        return leaves(step.index, Choice::recompute);
      case Step::Kind::leave:
        return leaves(step.index, Choice::swap);
      case Step::Kind::bring_in:
        return returns(step.index);
      case Step::Kind::run:
        for (const TensorIndex t : iteration_.ops[index(step.index)].outputs) {
          const StorageIndex s = iteration_.tensors[index(t)].storage;
          if (iteration_.storages[index(s)].root == t && step.index < next_op_) returns(s);
        }
        if (step.index == next_op_) ++next_op_;
        return;
      default:
        return;
    }
  }

  void leaves(StorageIndex s, Choice choice) {
    if (open_[index(s)] != kNone) {  // it is on the host and is given up there too
      windows_[index(s)].back().choice = choice;
      return;
    }
    open_[index(s)] = next_op_ - 1;
    windows_[index(s)].push_back({.choice = choice, .leaves_after = next_op_ - 1});
  }

  void returns(StorageIndex s) {
    if (open_[index(s)] == kNone) return;
    open_[index(s)] = kNone;
    Window& window = windows_[index(s)].back();
    window.back_before = next_op_;
    window.needed_by = std::min(uses_.next(s, next_op_), uses_.ops());
  }

  const Iteration& iteration_;
  const Uses& uses_;
  std::vector<std::vector<Window>> windows_;
  std::vector<OpIndex> open_;
  OpIndex next_op_ = 0;
};

// The longest time between two uses of a storage, its creation counted as one.
void find_idle(const Uses& uses, OpIndex made, StoragePlan& plan) {
  for (OpIndex from = made; from < uses.ops();) {
    const OpIndex to = uses.next(plan.storage, from + 1);
    if (to > uses.ops()) return;
    const Nanoseconds idle = from == kNone ? uses.start(to) : uses.start(to) - uses.start(from + 1);
    if (plan.idle_to == kNone || idle > plan.idle) {
      plan.idle = idle;
      plan.idle_from = from;
      plan.idle_to = to;
    }
    from = to;
  }
}

}  // namespace

bool matches(const Plan& plan, const Iteration& iteration) { return plan.fingerprint == fingerprint(iteration); }

std::vector<std::int64_t> host_copies(const Plan& plan, const Iteration& iteration) {
  std::vector<bool> has_copy(iteration.storages.size(), false);
  std::vector<std::int64_t> changes;
  for (const Step& step : plan.program) {
    const bool makes = step.kind == Step::Kind::copy_out || step.kind == Step::Kind::leave;
    if (!makes && step.kind != Step::Kind::drop) continue;
    const auto s = static_cast<std::size_t>(step.index);
    if (has_copy[s] == makes) continue;
    has_copy[s] = makes;
    changes.push_back(makes ? iteration.storages[s].size.count : -iteration.storages[s].size.count);
  }
  return changes;
}

std::vector<StoragePlan> decisions(const Plan& plan, const Iteration& iteration) {
  const Uses uses(iteration);
  std::vector<std::vector<Window>> windows = WindowFinder(iteration, uses).find(plan.program);
  std::vector<StoragePlan> result;
  for (std::size_t s = 0; s < iteration.storages.size(); ++s) {
    StoragePlan it{.storage = static_cast<StorageIndex>(s), .windows = std::move(windows[s])};
    find_idle(uses, uses.producer(it.storage), it);
    if (it.idle_to == kNone || iteration.storages[s].size.count == 0) continue;
    const Bytes size = iteration.storages[s].size;
    const bool pinned = iteration.storages[s].pinned;
    it.recompute_cost = pinned ? Uses::kImpossible : uses.recompute_cost(it.storage, it.idle_to);
    it.swap_cost =
        pinned || !plan.link.exists() ? Uses::kImpossible : plan.link.out_time(size) + plan.link.in_time(size);
    for (const Window& window : it.windows)
      if (it.choice != Choice::recompute) it.choice = window.choice;
    result.push_back(std::move(it));
  }
  std::ranges::stable_sort(result, std::ranges::greater{},
                           [&](const StoragePlan& it) { return iteration.storages[index(it.storage)].size; });
  return result;
}

std::string storage_name(const Iteration& iteration, StorageIndex storage) {
  const Storage& of = iteration.storages[index(storage)];
  if (of.root == kNone) return fmt::format("storage {}", storage);
  const Tensor& root = iteration.tensors[index(of.root)];
  if (!root.name.empty()) return root.name;
  if (root.producer == kNone) return fmt::format("input {}", storage);
  return fmt::format("{} {}", iteration.ops[index(root.producer)].name, root.producer);
}

std::string reason(const StoragePlan& it, const Plan& plan, const Iteration& iteration) {
  constexpr Nanoseconds kImpossible = Nanoseconds::max();
  const Bytes size = iteration.storages[index(it.storage)].size;
  switch (it.choice) {
    case Choice::swap:
      if (it.recompute_cost == kImpossible) return "cannot be recomputed";
      return it.swap_cost <= it.idle ? "both copies fit into the window" : "waiting costs less than recomputing";
    case Choice::recompute: {
      const double rate = static_cast<double>(it.recompute_cost.count()) * 1e6 / static_cast<double>(size.count);
      const char* link = !plan.link.exists()      ? ""
                         : it.swap_cost > it.idle ? "; its copies are longer than the window"
                                                  : "; the link is taken by others";
      return fmt::format("{:.1f} us to recompute a MB{}", rate / 1e3, link);
    }
    case Choice::keep:
      if (it.recompute_cost == kImpossible && it.swap_cost == kImpossible) return "cannot leave";
      return "there is room";
  }
  return "";
}

std::string explain(const Plan& plan, const Iteration& iteration, std::size_t lines) {
  constexpr const char* kNames[] = {"keep", "swap", "recompute"};
  const auto op_name = [&](OpIndex o) {
    return o == kNone                       ? std::string("start")
           : o >= std::ssize(iteration.ops) ? "end"
                                            : fmt::format("{} {}", iteration.ops[index(o)].name, o);
  };
  const auto cost_text = [](Nanoseconds cost) {
    return cost == Uses::kImpossible ? std::string("-") : to_string(cost);
  };
  const auto ratio = [&](Nanoseconds time) {
    return static_cast<double>(time.count()) / static_cast<double>(plan.base_time.count());
  };
  std::string text = fmt::format(
      "budget {}: {:.3f} x the time without one, {:.1f} % above the lower bound ({:.3f} x)\n"
      "recomputing {}, waiting for copies {}; {} out, {} in; peak {}\n\n",
      to_string(plan.budget), ratio(plan.cost.time), plan.gap() * 100, ratio(plan.bound.time),
      to_string(plan.cost.recompute), to_string(plan.cost.stall), to_string(plan.cost.bytes_out),
      to_string(plan.cost.bytes_in), to_string(plan.cost.peak));
  text += fmt::format("{:<20} {:>11} {:<10} {:<44} {:>11} {:>11} {:>11}  {}\n", "tensor", "bytes", "choice",
                      "idle window", "length", "recompute", "swap", "why");
  const std::vector<StoragePlan> all = decisions(plan, iteration);
  for (const StoragePlan& it : all) {
    if (lines-- == 0) {
      text += "…\n";
      break;
    }
    const Storage& storage = iteration.storages[index(it.storage)];
    std::string window = fmt::format("{} to {}", op_name(it.idle_from), op_name(it.idle_to));
    for (const Window& away : it.windows)
      fmt::format_to(std::back_inserter(window), ", {} {}..{}", away.choice == Choice::swap ? "out" : "gone",
                     away.leaves_after, away.back_before);
    text += fmt::format("{:<20} {:>11} {:<10} {:<44} {:>11} {:>11} {:>11}  {}\n", storage_name(iteration, it.storage),
                        to_string(storage.size), kNames[static_cast<int>(it.choice)], window, to_string(it.idle),
                        cost_text(it.recompute_cost), cost_text(it.swap_cost), reason(it, plan, iteration));
  }
  return text;
}

}  // namespace ferry::swap
