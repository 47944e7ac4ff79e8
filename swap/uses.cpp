#include "swap/uses.h"

#include <algorithm>

namespace ferry::swap {
namespace {

constexpr std::size_t kFarTooMuch = 256;  // ops to recompute one storage

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Uses::Uses(const Iteration& iteration)
    : iteration_(iteration),
      begin_(iteration.storages.size() + 1),
      seen_(iteration.storages.size()),
      known_(iteration.storages.size()) {
  const auto storage_of = [&](TensorIndex t) { return index(iteration.tensors[index(t)].storage); };
  const auto visit = [&](auto use) {
    for (std::size_t o = 0; o < iteration.ops.size(); ++o)
      for (const TensorIndex t : iteration.ops[o].inputs) use(storage_of(t), static_cast<OpIndex>(o));
    for (const TensorIndex t : iteration.kept) use(storage_of(t), static_cast<OpIndex>(iteration.ops.size()));
  };
  visit([&](std::size_t s, OpIndex) { ++begin_[s + 1]; });
  for (std::size_t s = 1; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
  uses_.resize(begin_.back());
  costs_.resize(begin_.back(), kUnknown);
  std::vector<std::size_t> end(begin_.begin(), begin_.end() - 1);
  visit([&](std::size_t s, OpIndex o) { uses_[end[s]++] = o; });
  starts_.push_back({});
  for (const Op& op : iteration.ops) starts_.push_back(starts_.back() + op.time);
}

OpIndex Uses::next(StorageIndex storage, OpIndex from) const {
  const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(begin_[index(storage)]);
  const auto last = uses_.begin() + static_cast<std::ptrdiff_t>(begin_[index(storage) + 1]);
  const auto found = std::lower_bound(first, last, from);
  return found == last ? beyond() : *found;
}

OpIndex Uses::producer(StorageIndex storage) const {
  return iteration_.tensors[index(iteration_.storages[index(storage)].root)].producer;
}

// Adds the op that makes `storage`, and to `missing` what that needs and is gone by then.
bool Uses::inputs_of(StorageIndex storage, OpIndex use, std::vector<StorageIndex>& missing, Nanoseconds& sum) const {
  const OpIndex op = producer(storage);
  if (op == kNone || !iteration_.storages[index(storage)].recomputable) return false;
  sum += iteration_.ops[index(op)].time;
  for (const TensorIndex t : iteration_.ops[index(op)].reads(true)) {
    const StorageIndex s = iteration_.tensors[index(t)].storage;
    if (iteration_.storages[index(s)].pinned || seen_[index(s)] == walk_ || next(s, use) != beyond()) continue;
    seen_[index(s)] = walk_;
    missing.push_back(s);
  }
  return true;
}

Nanoseconds Uses::recompute_cost(StorageIndex storage, OpIndex use) const {
  const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(begin_[index(storage)]);
  const auto last = uses_.begin() + static_cast<std::ptrdiff_t>(begin_[index(storage) + 1]);
  const auto found = std::lower_bound(first, last, use);
  if (found != last && *found == use) {
    Nanoseconds& cost = costs_[static_cast<std::size_t>(found - uses_.begin())];
    if (cost == kUnknown) cost = walk_costs(storage, use);
    return cost;
  }
  Known& known = known_[index(storage)];
  if (known.use != use) known = {use, walk_costs(storage, use)};
  return known.cost;
}

Nanoseconds Uses::walk_costs(StorageIndex storage, OpIndex use) const {
  seen_[index(storage)] = ++walk_;
  std::vector<StorageIndex> missing = {storage};
  Nanoseconds sum{};
  for (std::size_t visited = 0; !missing.empty(); ++visited) {
    const StorageIndex next = missing.back();
    missing.pop_back();
    if (visited > kFarTooMuch || !inputs_of(next, use, missing, sum)) return kImpossible;
  }
  return sum;
}

}  // namespace ferry::swap
