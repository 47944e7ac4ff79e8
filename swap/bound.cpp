#include "swap/bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

namespace ferry::swap {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Instant {
  std::size_t position = 0;  // in events
  Bytes used{};
  Nanoseconds before{}, after{};  // op time up to it, the op there included, and from it
  std::vector<bool> present{};    // by storage
};

// Outputs of one op: they come back together.
struct Group {
  double bytes = 0;
  double cost = 0;  // to recompute, ns; 0: not used any more
};

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

StorageIndex storage_of(const Iteration& iteration, TensorIndex t) { return iteration.tensors[index(t)].storage; }

// Storages that come or go with an event.
template <class Visit>
void visit_changes(const Iteration& iteration, const Event& event, Visit visit) {
  const auto add = [&](TensorIndex t) {
    const StorageIndex s = storage_of(iteration, t);
    if (iteration.storages[index(s)].root == t) visit(s, true);
  };
  if (event.kind == Event::Kind::create) add(event.index);
  if (event.kind == Event::Kind::run)
    for (const TensorIndex t : iteration.ops[index(event.index)].outputs) add(t);
  if (event.kind == Event::Kind::release && !iteration.storages[index(event.index)].pinned) visit(event.index, false);
}

Instant highest(const Iteration& iteration) {
  Instant best;
  Bytes used{};
  for (std::size_t i = 0; i < iteration.events.size(); ++i) {
    visit_changes(iteration, iteration.events[i], [&](StorageIndex s, bool comes) {
      used += comes ? iteration.storages[index(s)].size : Bytes{} - iteration.storages[index(s)].size;
    });
    if (used <= best.used) continue;
    best.used = used;
    best.position = i;
  }
  best.present.resize(iteration.storages.size());
  for (std::size_t i = 0; i < iteration.events.size(); ++i) {
    const Event& event = iteration.events[i];
    if (event.kind == Event::Kind::run)
      (i <= best.position ? best.before : best.after) += iteration.ops[index(event.index)].time;
    if (i <= best.position)
      visit_changes(iteration, event, [&](StorageIndex s, bool comes) { best.present[index(s)] = comes; });
  }
  return best;
}

std::vector<bool> used_after(const Iteration& iteration, std::size_t position) {
  std::vector<bool> used(iteration.storages.size());
  for (std::size_t i = position + 1; i < iteration.events.size(); ++i)
    if (iteration.events[i].kind == Event::Kind::run)
      for (const TensorIndex t : iteration.ops[index(iteration.events[i].index)].inputs)
        used[index(storage_of(iteration, t))] = true;
  for (const TensorIndex t : iteration.kept) used[index(storage_of(iteration, t))] = true;
  return used;
}

// What may be away at the instant, cheapest a byte first.
std::vector<Group> groups(const Iteration& iteration, Instant at, Methods methods) {
  const Event& event = iteration.events[at.position];
  if (event.kind == Event::Kind::run) {
    const Op& op = iteration.ops[index(event.index)];
    for (const auto* tensors : {&op.inputs, &op.outputs})
      for (const TensorIndex t : *tensors) at.present[index(storage_of(iteration, t))] = false;
  }
  const std::vector<bool> needed = used_after(iteration, at.position);
  std::map<OpIndex, Group> by_op;
  std::vector<Group> result;
  for (std::size_t s = 0; s < iteration.storages.size(); ++s) {
    const Storage& storage = iteration.storages[s];
    if (!at.present[s] || storage.pinned || storage.size.count == 0) continue;
    const auto bytes = static_cast<double>(storage.size.count);
    const OpIndex producer = iteration.tensors[index(storage.root)].producer;
    if (!needed[s]) {
      result.push_back({bytes, 0});
    } else if (methods == Methods::swap || !storage.recomputable || producer == kNone) {
      result.push_back({bytes, kNever});
    } else {
      Group& group = by_op[producer];
      group.bytes += bytes;
      group.cost = static_cast<double>(iteration.ops[index(producer)].time.count());
    }
  }
  for (const auto& [op, group] : by_op) result.push_back(group);
  std::ranges::stable_sort(result, {}, [](const Group& group) { return group.cost / group.bytes; });
  return result;
}

}  // namespace

Bound lower_bound(const Iteration& iteration, Bytes budget, Methods methods, const Link& link) {
  const Instant at = highest(iteration);
  Bound bound{.feasible = true, .time = at.before + at.after, .must_leave = at.used - budget};
  if (bound.must_leave.count <= 0) return bound.must_leave = {}, bound;
  double carried = 0, stall_a_byte = kNever;
  if (methods != Methods::recompute && link.exists()) {
    const auto seconds = [](Nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; };
    carried = std::min(link.out_bytes_per_second * seconds(at.before), link.in_bytes_per_second * seconds(at.after));
    stall_a_byte = 1e9 / std::max(link.out_bytes_per_second, link.in_bytes_per_second);
  }
  // The link carries the dearest ones: the cheapest fill what is left.
  double missing = static_cast<double>(bound.must_leave.count);
  double extra = 0;
  for (const Group& group : groups(iteration, at, methods)) {
    if (missing <= 0) break;
    const double bytes = std::min(missing, group.bytes);
    const double by_link = std::max(0.0, bytes - std::max(0.0, missing - carried));
    const double rate = std::min(group.cost / group.bytes, stall_a_byte);
    if (bytes - by_link > 0) extra += (bytes - by_link) * rate;
    missing -= bytes;
  }
  bound.feasible = missing <= 0 && extra < kNever;
  if (bound.feasible) bound.time += Nanoseconds(static_cast<Nanoseconds::rep>(extra));
  return bound;
}

}  // namespace ferry::swap
