// The evicted storages around a storage, for policies that weigh what bringing it back would really cost.
//
// Evicted storages that depend on each other form components. dtr estimates them by union-find as its paper does
// (h_DTR^eq): evicting merges a storage with its evicted neighbours, and bringing one back takes its cost off the
// component without splitting it, so an update costs almost constant time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "swap/iteration.h"

namespace ferry::swap {

class Neighborhood {
 public:
  // Room for storages below `count`, also those that no op reads or writes.
  void know(StorageIndex count) {
    if (count > 0) grow(count - 1);
  }
  // An op that reads and writes these storages, known before it runs for the first time. A storage that is read and
  // written is one that the op makes a view of. Storages are added as they are named.
  void add_op(std::span<const StorageIndex> reads, std::span<const StorageIndex> writes, Nanoseconds time);

  // Requires: known; evicted in turn with restored.
  void evicted(StorageIndex storage);
  void restored(StorageIndex storage);
  // Forgets a storage that no recomputation needs any more. Requires: not evicted.
  void forget(StorageIndex storage);

  // Sum of the times of the distinct ops that wrote to it, views included.
  Nanoseconds own_cost(StorageIndex storage) const;
  // Sum over the distinct components next to it.
  Nanoseconds neighbors_cost(StorageIndex storage) const;
  // Sum of the own costs of evicted storages that it was computed from, over chains of evicted ones. At most `limit`
  // storages are visited; what lies beyond is taken as free.
  Nanoseconds ancestors_cost(StorageIndex storage, std::size_t limit) const;

 private:
  // What every score reads stands apart from the lists, which few need.
  struct Node {
    Nanoseconds own{};
    std::int32_t component = kNone;      // its entry in components_ while it is evicted
    std::int32_t evicted_neighbors = 0;  // entries of its lists that are evicted
    bool evicted() const { return component != kNone; }
  };
  struct Neighbors {
    std::vector<StorageIndex> parents{}, children{};
    mutable std::uint32_t visit = 0;
  };
  struct Component {
    std::int32_t parent;  // itself: a root
    std::int32_t rank;
    Nanoseconds cost;
  };

  void grow(StorageIndex storage);
  Node& node(StorageIndex storage) { return nodes_[static_cast<std::size_t>(storage)]; }
  const Node& node(StorageIndex storage) const { return nodes_[static_cast<std::size_t>(storage)]; }
  Neighbors& around(StorageIndex storage) { return neighbors_[static_cast<std::size_t>(storage)]; }
  const Neighbors& around(StorageIndex storage) const { return neighbors_[static_cast<std::size_t>(storage)]; }
  void connect(StorageIndex parent, StorageIndex child);
  std::int32_t root(std::int32_t component) const;
  void merge(std::int32_t a, std::int32_t b);

  std::vector<Node> nodes_;
  std::vector<Neighbors> neighbors_;
  mutable std::vector<Component> components_;  // path compression on reading
  mutable std::uint32_t visits_ = 0;
  mutable std::vector<StorageIndex> walk_;
};

}  // namespace ferry::swap
