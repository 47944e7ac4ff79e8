#include "placement/advisor_replay.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Sets of devices as bits: the host is bit 0, a GPU the one after its index.
std::uint64_t bit(Device device) { return device.is_cpu() ? 1 : std::uint64_t{2} << (device.index % 63); }
Device lowest(std::uint64_t devices) {
  const int first = std::countr_zero(devices);
  return first == 0 ? cpu::device : Device{DeviceType::gpu, static_cast<std::int8_t>(first - 1)};
}

}  // namespace

Replay::Replay(const trace::Trace& trace, const CostModel* model)
    : trace_(trace),
      model_(model),
      copy_cost_(trace, model),
      op_cost_(trace, model),
      timeline_(trace, copy_cost_, op_cost_) {
  make_groups();
  make_uses();
  match_copies();
  link_followers();
}

void Replay::make_groups() {
  // Updates count by whose tensors they write, which decides where they run.
  using Key = std::tuple<trace::StringIndex, trace::SiteIndex, trace::StringIndex, trace::Phase, GroupIndex>;
  std::map<Key, GroupIndex> known;
  std::vector<GroupIndex> makers(trace_.tensors.size(), -1);
  group_of_.resize(trace_.ops.size());
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    const trace::OpRecord& op = trace_.ops[i];
    const bool is_update = op.phase == trace::Phase::optimizer && !op.outputs.empty() && op.outputs[0].tensor >= 0;
    const Key key(op.name, op.site, op.scope, op.phase, is_update ? makers[at(op.outputs[0].tensor)] : -1);
    const auto [entry, is_new] = known.try_emplace(key, static_cast<GroupIndex>(groups_.size()));
    if (is_new) groups_.push_back({.op = op.name, .scope = op.scope, .site = op.site, .device = op.device});
    Group& group = groups_[at(entry->second)];
    group.ops.push_back(static_cast<trace::OpIndex>(i));
    group.has_gpu_kernel = group.has_gpu_kernel && op.has_gpu_kernel;
    group.movable = group.movable && op.phase == trace::Phase::forward &&
                    op.cause != trace::PlacementCause::inherited && op.cause != trace::PlacementCause::op_rule;
    group_of_[i] = entry->second;
    for (const trace::Argument& output : op.outputs) {
      if (output.tensor >= 0 && makers[at(output.tensor)] < 0) makers[at(output.tensor)] = entry->second;
    }
  }
}

void Replay::make_uses() {
  uses_.resize(trace_.tensors.size());
  // Explicit copies without an op take their place among the ops by time.
  std::vector<const trace::CopyRecord*> loose;
  for (const trace::CopyRecord& copy : trace_.copies) {
    if (copy.cause == trace::CopyCause::implicit || copy.cause == trace::CopyCause::swap) continue;
    if (copy.op >= 0) groups_[at(group_of(copy.op))].movable = false;
    if (copy.op < 0 && copy.tensor >= 0) loose.push_back(&copy);
  }
  auto next = loose.begin();
  const auto add_loose = [&](Nanoseconds until, std::size_t following) {
    for (; next != loose.end() && (*next)->begin < until; ++next) {
      uses_[at((*next)->tensor)].push_back({.order = static_cast<trace::OpIndex>(following),
                                            .copy = *next - trace_.copies.data(),
                                            .explicit_to = (*next)->to,
                                            .read = true,
                                            .explicit_copy = true});
    }
  };
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    const trace::OpRecord& op = trace_.ops[i];
    add_loose(op.begin, i);
    for (const trace::Argument& argument : op.inputs) {
      if (argument.tensor < 0) continue;
      uses_[at(argument.tensor)].push_back({.op = static_cast<trace::OpIndex>(i),
                                            .order = static_cast<trace::OpIndex>(i),
                                            .read = true,
                                            .host = argument.host});
    }
    for (const trace::Argument& argument : op.outputs) {
      if (argument.tensor < 0) continue;
      uses_[at(argument.tensor)].push_back({.op = static_cast<trace::OpIndex>(i),
                                            .order = static_cast<trace::OpIndex>(i),
                                            .write = true,
                                            .host = argument.host});
    }
  }
  add_loose(Nanoseconds::max(), trace_.ops.size());
}

void Replay::match_copies() {
  for (std::size_t i = 0; i < trace_.copies.size(); ++i) {
    const trace::CopyRecord& copy = trace_.copies[i];
    if (copy.op < 0 || copy.tensor < 0) continue;
    std::vector<Use>& uses = uses_[at(copy.tensor)];
    const auto [first, last] = std::ranges::equal_range(uses, copy.op, {}, &Use::order);
    for (auto use = first; use != last; ++use) {
      if (use->op < 0 || !use->read || use->copy >= 0 || place_of(*use, nullptr) != copy.to) continue;
      use->copy = static_cast<std::int64_t>(i);
      use->explicit_copy = copy.cause != trace::CopyCause::implicit;
      break;
    }
  }
}

GroupIndex Replay::leader_of(const Group& follower, GroupIndex index) const {
  const trace::OpRecord& op = trace_.ops[at(follower.ops.front())];
  const auto writes_input = [&](const trace::Argument& output) {
    return output.tensor >= 0 && std::ranges::count(op.inputs, output.tensor, &trace::Argument::tensor) > 0;
  };
  // A gradient is written over the one that it comes from only where both ops run on one device: it follows its forward
  // op all the same.
  const bool is_gradient = trace_.string(follower.op).ends_with("_backward_");
  if (op.phase == trace::Phase::optimizer || (!is_gradient && std::ranges::any_of(op.outputs, writes_input))) {
    // It runs where what it writes is: with the op that made that, if this trace saw it and it is one. An optimizer
    // made its state itself.
    GroupIndex maker = -1;
    for (const trace::Argument& output : op.outputs) {
      if (!writes_input(output)) continue;
      const GroupIndex producer = producer_of(output.tensor);
      if (producer < 0 || producer == index) continue;
      if (trace_.ops[at(groups_[at(producer)].ops.front())].phase == trace::Phase::optimizer) continue;
      if (maker >= 0 && maker != producer) return -1;
      maker = producer;
    }
    return maker;
  }
  GroupIndex only = -1, by_name = -1;
  int candidates = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (!group.movable || group.site != follower.site || group.scope != follower.scope) continue;
    only = static_cast<GroupIndex>(i);
    ++candidates;
    if (trace_.string(follower.op).starts_with(trace_.string(group.op))) by_name = only;
  }
  return by_name >= 0 ? by_name : candidates == 1 ? only : -1;
}

// Of an inherited op whose name and line tell no leader: gradients and first values are computed by ordinary ops, too.
// It goes with the reader of its result; of a gradient, the forward op at its line reads what the reader's made.
GroupIndex Replay::leader_by_reader(const Group& follower) const {
  for (const trace::OpIndex op : follower.ops) {
    for (const trace::Argument& output : trace_.ops[at(op)].outputs) {
      if (output.tensor < 0) continue;
      for (const Use& use : uses_[at(output.tensor)]) {
        if (!use.read || use.op < 0 || use.op == op) continue;
        const GroupIndex reader = groups_[at(group_of(use.op))].leader;
        if (reader < 0 || &groups_[at(reader)] == &follower) continue;
        const GroupIndex next = reader_at_line(reader, follower.site);
        return next >= 0 ? next : reader;
      }
    }
  }
  return -1;
}

// A group that the program places at the line and that reads what `maker` makes; -1: none.
GroupIndex Replay::reader_at_line(GroupIndex maker, trace::SiteIndex site) const {
  for (const trace::Argument& made : trace_.ops[at(groups_[at(maker)].ops.front())].outputs) {
    if (made.tensor < 0) continue;
    for (const Use& use : uses_[at(made.tensor)]) {
      if (!use.read || use.op < 0) continue;
      const GroupIndex reader = group_of(use.op);
      if (reader != maker && groups_[at(reader)].movable && groups_[at(reader)].site == site) return reader;
    }
  }
  return -1;
}

void Replay::link_followers() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const trace::OpRecord& first = trace_.ops[at(groups_[i].ops.front())];
    if (first.cause != trace::PlacementCause::inherited) continue;
    const GroupIndex leader = leader_of(groups_[i], static_cast<GroupIndex>(i));
    if (leader < 0) continue;
    follow(static_cast<GroupIndex>(i), leader);
  }
  // From the last on: what reads a gradient comes after what made it.
  for (std::size_t i = groups_.size(); i-- > 0;) {
    const trace::OpRecord& first = trace_.ops[at(groups_[i].ops.front())];
    if (first.cause != trace::PlacementCause::inherited || groups_[i].leader >= 0) continue;
    if (first.phase == trace::Phase::optimizer) continue;
    if (const GroupIndex leader = leader_by_reader(groups_[i]); leader >= 0) follow(static_cast<GroupIndex>(i), leader);
  }
}

void Replay::follow(GroupIndex follower, GroupIndex leader) {
  groups_[at(leader)].followers.push_back(follower);
  groups_[at(follower)].leader = leader;
}

GroupIndex Replay::mover_of(trace::OpIndex op) const {
  const GroupIndex group = group_of(op);
  return groups_[at(group)].leader >= 0 ? groups_[at(group)].leader : group;
}

GroupIndex Replay::producer_of(trace::TensorIndex tensor) const {
  const std::vector<Use>& uses = uses_[at(tensor)];
  const auto write = std::ranges::find_if(uses, &Use::write);
  return write == uses.end() ? -1 : group_of(write->op);
}

bool Replay::can_move(GroupIndex index, Device device) const {
  const Group& group = groups_[at(index)];
  return group.movable && (device.is_cpu() || group.has_gpu_kernel) &&
         std::ranges::any_of(group.ops, [&](trace::OpIndex op) { return trace_.ops[at(op)].device != device; });
}

Device Replay::place_of(const Use& use, const Change* change) const {
  if (use.op < 0) return use.explicit_to;
  if (use.host) return cpu::device;
  if (change != nullptr && std::ranges::binary_search(change->groups, group_of(use.op))) return change->device;
  return trace_.ops[at(use.op)].device;
}

Device Replay::place_of(const Use& use, const Places& places) const {
  if (use.op < 0) return use.explicit_to;
  if (use.host) return cpu::device;
  const GroupIndex group = group_of(use.op);
  const Device wanted = places[at(group)];
  return wanted == groups_[at(group)].device ? trace_.ops[at(use.op)].device : wanted;
}

Device Replay::first_home(trace::TensorIndex tensor) const {
  const Use& first = uses(tensor).front();
  return first.copy >= 0 ? trace_.copies[at(first.copy)].from : place_of(first, nullptr);
}

template <class Where>
std::vector<Replay::Direction> Replay::copies_of(trace::TensorIndex tensor, const Where& where) const {
  const std::vector<Use>& uses = uses_[at(tensor)];
  std::vector<Direction> copies(uses.size());
  if (uses.empty()) return copies;
  std::uint64_t valid = bit(first_home(tensor));
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Device place = place_of(uses[i], where);
    if (uses[i].read && (valid & bit(place)) == 0) {
      copies[i] = {lowest(valid), place};  // from the host, where it has the value
      valid |= bit(place);
    }
    if (uses[i].write) valid = bit(place);
  }
  return copies;
}

template std::vector<Replay::Direction> Replay::copies_of(trace::TensorIndex tensor, const Places& where) const;

bool Replay::in_hotspot(const trace::CopyRecord& copy, const trace::Hotspot& hotspot) const {
  return copy.synchronous && copy.cause == trace::CopyCause::implicit && copy.op_name == hotspot.op_name &&
         copy.site == hotspot.site && copy.from == hotspot.from && copy.to == hotspot.to;
}

void Replay::compare(trace::TensorIndex tensor, const Change& change, const trace::Hotspot& hotspot,
                     Outcome& outcome) const {
  const std::vector<Use>& uses = uses_[at(tensor)];
  const std::vector<Direction> before = copies_of<const Change*>(tensor, nullptr), after = copies_of(tensor, &change);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (before[i] == after[i]) continue;
    // Only copies that the run really made can be saved.
    if (before[i] && uses[i].copy >= 0 && !uses[i].explicit_copy) {
      const trace::CopyRecord& copy = trace_.copies[at(uses[i].copy)];
      CopyCount& count = outcome.removed[{copy.from, copy.to}];
      ++count.calls;
      if (copy.synchronous) ++count.blocking;
      if (in_hotspot(copy, hotspot)) ++outcome.hotspot_removed;
      outcome.copies_saved += copy.end - copy.begin;
      outcome.changes.removed.push_back(uses[i].copy);
    }
    if (after[i]) {
      const auto [from, to] = *after[i];
      CopyCount& count = outcome.added[{from, to}];
      ++count.calls;
      if (copy_cost_.blocks(from, to)) ++count.blocking;
      const Bytes size = trace_.tensors[at(tensor)].size;
      outcome.copies_saved -= copy_cost_.host_time(from, to, size);
      outcome.changes.added.push_back({uses[i].order, from, to, size});
    }
  }
}

std::vector<GroupIndex> Replay::with_followers(const Change& change) const {
  std::set<GroupIndex> all;
  std::vector<GroupIndex> open = change.groups;
  while (!open.empty()) {
    const GroupIndex group = open.back();
    open.pop_back();
    if (all.insert(group).second)
      open.insert(open.end(), groups_[at(group)].followers.begin(), groups_[at(group)].followers.end());
  }
  return {all.begin(), all.end()};
}

bool Replay::fits(const std::vector<GroupIndex>& groups, Device device) const {
  const auto info = std::ranges::find(trace_.devices, device, &trace::DeviceInfo::device);
  if (device.is_cpu() || info == trace_.devices.end() || info->capacity == Bytes{}) return true;
  std::set<trace::TensorIndex> persistent;
  Bytes kept{}, largest{};
  for (const GroupIndex group : groups) {
    for (const trace::OpIndex index : groups_[at(group)].ops) {
      Bytes own{};
      const trace::OpRecord& op = trace_.ops[at(index)];
      for (const auto* arguments : {&op.inputs, &op.outputs}) {
        for (const trace::Argument& argument : *arguments) {
          if (argument.tensor < 0 || argument.host) continue;
          const Bytes size = trace_.tensors[at(argument.tensor)].size;
          if (uses_[at(argument.tensor)].front().write) {
            own += size;
          } else if (persistent.insert(argument.tensor).second) {
            kept += size;
          }
        }
      }
      largest = std::max(largest, own);
    }
  }
  return info->peak_allocated + kept + largest <= info->capacity;
}

Outcome Replay::evaluate(const Change& change, const trace::Hotspot& hotspot) const {
  const Change moved{change.device, with_followers(change)};
  Outcome outcome;
  std::vector<trace::TensorIndex> tensors;
  for (const GroupIndex group : moved.groups) {
    Nanoseconds added{};
    for (const trace::OpIndex index : groups_[at(group)].ops) {
      const trace::OpRecord& op = trace_.ops[at(index)];
      outcome.changes.moved.push_back({index, change.device});
      added += op_cost_.on(index, change.device) - op_cost_.measured(index);
      for (const auto* arguments : {&op.inputs, &op.outputs}) {
        for (const trace::Argument& argument : *arguments) {
          if (argument.tensor >= 0) tensors.push_back(argument.tensor);
        }
      }
      if (change.device.is_gpu() && !op.has_gpu_kernel) outcome.fits = false;
    }
    outcome.compute_added += std::max(added, Nanoseconds(0));
  }
  std::ranges::sort(tensors);
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  for (const trace::TensorIndex tensor : tensors) compare(tensor, moved, hotspot, outcome);
  outcome.fits = outcome.fits && fits(moved.groups, change.device);
  return outcome;
}

Prediction Replay::predict(const Outcome& outcome) const {
  Prediction prediction{.saved = timeline_.saving(outcome.changes)};
  for (const MovedOp& op : outcome.changes.moved)
    prediction.host_added += op_cost_.host_on(op.op, op.device) - op_cost_.measured_host(op.op);
  prediction.host_added = std::max(prediction.host_added, Nanoseconds(0));
  return prediction;
}

std::vector<GroupIndex> Replay::siblings(GroupIndex group) const {
  std::vector<GroupIndex> same;
  const Group& self = groups_[at(group)];
  if (!self.movable || self.site < 0) return {group};
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& other = groups_[i];
    if (other.movable && other.site == self.site && other.op == self.op) same.push_back(static_cast<GroupIndex>(i));
  }
  return same;
}

bool Replay::is_alone_at_its_line(GroupIndex group) const {
  const Group& self = groups_[at(group)];
  return self.site >= 0 && std::ranges::all_of(groups_, [&](const Group& other) {
           return !other.movable || other.site != self.site || other.op == self.op;
         });
}

std::vector<GroupIndex> Replay::groups_around(const trace::Hotspot& hotspot) const {
  std::set<GroupIndex> around;
  std::set<trace::TensorIndex> tensors;
  for (const trace::CopyRecord& copy : trace_.copies) {
    if (!in_hotspot(copy, hotspot)) continue;
    if (copy.op >= 0) around.insert(mover_of(copy.op));
    if (copy.tensor >= 0) tensors.insert(copy.tensor);
  }
  for (const trace::TensorIndex tensor : tensors) {
    for (const Use& use : uses_[at(tensor)]) {
      if (use.op >= 0) around.insert(mover_of(use.op));
    }
  }
  return {around.begin(), around.end()};
}

std::vector<GroupIndex> Replay::neighbours(GroupIndex index) const {
  std::set<GroupIndex> found;
  for (const trace::OpIndex op : groups_[at(index)].ops) {
    for (const trace::Argument& input : trace_.ops[at(op)].inputs) {
      if (input.tensor < 0 || input.host) continue;
      if (const GroupIndex producer = producer_of(input.tensor); producer >= 0) found.insert(producer);
    }
    for (const trace::Argument& output : trace_.ops[at(op)].outputs) {
      if (output.tensor < 0 || output.host) continue;
      for (const Use& use : uses_[at(output.tensor)]) {
        if (use.op >= 0 && use.read && !use.host) found.insert(mover_of(use.op));
      }
    }
  }
  found.erase(index);
  return {found.begin(), found.end()};
}

}  // namespace ferry::placement
