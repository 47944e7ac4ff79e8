#include "swap/neighborhood.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ferry::swap {

void Neighborhood::grow(StorageIndex storage) {
  const auto s = static_cast<std::size_t>(storage);
  if (s < nodes_.size()) return;
  const std::size_t size = std::max(s + 1, nodes_.size() * 2);
  nodes_.resize(size);
  neighbors_.resize(size);
}

void Neighborhood::connect(StorageIndex parent, StorageIndex child) {
  std::vector<StorageIndex>& parents = around(child).parents;
  if (std::ranges::find(parents, parent) != parents.end()) return;
  parents.push_back(parent);
  around(parent).children.push_back(child);
  node(child).evicted_neighbors += node(parent).evicted();
  node(parent).evicted_neighbors += node(child).evicted();
}

void Neighborhood::add_op(std::span<const StorageIndex> reads, std::span<const StorageIndex> writes, Nanoseconds time) {
  for (const auto storages : {reads, writes})
    for (const StorageIndex storage : storages) grow(storage);
  for (std::size_t w = 0; w < writes.size(); ++w) {
    const auto before = writes.first(w);
    if (std::ranges::find(before, writes[w]) != before.end()) continue;
    node(writes[w]).own += time;
    for (const StorageIndex read : reads)
      if (read != writes[w]) connect(read, writes[w]);
  }
}

std::int32_t Neighborhood::root(std::int32_t component) const {
  auto at = [this](std::int32_t i) -> Component& { return components_[static_cast<std::size_t>(i)]; };
  while (at(component).parent != component) {
    at(component).parent = at(at(component).parent).parent;
    component = at(component).parent;
  }
  return component;
}

void Neighborhood::merge(std::int32_t a, std::int32_t b) {
  a = root(a);
  b = root(b);
  if (a == b) return;
  auto at = [this](std::int32_t i) -> Component& { return components_[static_cast<std::size_t>(i)]; };
  if (at(a).rank > at(b).rank) std::swap(a, b);
  at(a).parent = b;
  at(b).cost += at(a).cost;
  if (at(a).rank == at(b).rank) ++at(b).rank;
}

void Neighborhood::evicted(StorageIndex storage) {
  const auto component = static_cast<std::int32_t>(components_.size());
  components_.push_back({component, 0, node(storage).own});
  node(storage).component = component;
  for (const auto* neighbors : {&around(storage).parents, &around(storage).children}) {
    for (const StorageIndex other : *neighbors) {
      ++node(other).evicted_neighbors;
      if (node(other).evicted()) merge(node(other).component, component);
    }
  }
}

void Neighborhood::restored(StorageIndex storage) {
  components_[static_cast<std::size_t>(root(node(storage).component))].cost -= node(storage).own;
  node(storage).component = kNone;
  for (const auto* neighbors : {&around(storage).parents, &around(storage).children})
    for (const StorageIndex other : *neighbors) --node(other).evicted_neighbors;
}

void Neighborhood::forget(StorageIndex storage) {
  for (const StorageIndex parent : around(storage).parents) std::erase(around(parent).children, storage);
  for (const StorageIndex child : around(storage).children) std::erase(around(child).parents, storage);
  around(storage) = {};
  node(storage) = {};
}

Nanoseconds Neighborhood::own_cost(StorageIndex storage) const { return node(storage).own; }

Nanoseconds Neighborhood::neighbors_cost(StorageIndex storage) const {
  Nanoseconds sum{};
  if (node(storage).evicted_neighbors == 0) return sum;
  const Neighbors& it = around(storage);
  std::array<std::int32_t, 16> few{};  // roots that were counted; more than these are rare and may count twice
  std::size_t count = 0;
  for (const auto* neighbors : {&it.parents, &it.children}) {
    for (const StorageIndex other : *neighbors) {
      if (!node(other).evicted()) continue;
      const std::int32_t component = root(node(other).component);
      const auto end = few.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::find(few.begin(), end, component) != end) continue;
      if (count < few.size()) few[count++] = component;
      sum += components_[static_cast<std::size_t>(component)].cost;
    }
  }
  return sum;
}

Nanoseconds Neighborhood::ancestors_cost(StorageIndex storage, std::size_t limit) const {
  if (node(storage).evicted_neighbors == 0) return {};
  ++visits_;
  walk_.assign(1, storage);
  Nanoseconds sum{};
  std::size_t visited = 0;
  while (!walk_.empty() && visited < limit) {
    const StorageIndex next = walk_.back();
    walk_.pop_back();
    for (const StorageIndex parent : around(next).parents) {
      if (!node(parent).evicted() || around(parent).visit == visits_) continue;
      around(parent).visit = visits_;
      sum += node(parent).own;
      ++visited;
      walk_.push_back(parent);
    }
  }
  return sum;
}

}  // namespace ferry::swap
