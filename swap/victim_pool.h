// The evictable storages, and the choice among them. A choice takes O(log n) where scores are fixed; where they change,
// all storages are looked at while they are few, and above that a sample: some drawn at random and the best ones that
// earlier choices left over.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "swap/policy.h"

namespace ferry::swap {

class VictimPool {
 public:
  struct Options {
    Bytes minimum_size{};        // smaller storages are never chosen
    bool sqrt_sampling = false;  // look at √n of them, however few they are; at most at 96
    std::uint64_t seed = 1;
    std::size_t look_at_all = 1024;  // up to so many
    std::size_t sample = 48;         // above that
  };

  VictimPool(const Policy& policy, const Options& options)
      : policy_(policy), options_(options), random_(options.seed) {}

  // Requires: not in the pool. A storage that was used comes back as a new one.
  void add(const Evictable& it, const Situation& at);
  void remove(StorageIndex storage);  // nothing if it is not there
  bool contains(StorageIndex storage) const { return position(storage) != kNone; }
  std::size_t size() const { return entries_.size(); }

  // It stays in the pool. nullopt: the pool is empty.
  std::optional<Evictable> choose(const Situation& at);

 private:
  struct Entry {
    Evictable it;
    std::uint64_t sequence;
  };
  struct Scored {
    double score;
    std::uint64_t sequence;
    StorageIndex storage;
    // Whether `*this` goes before `other`.
    bool before(const Scored& other) const {
      return score != other.score ? score < other.score : sequence > other.sequence;
    }
  };

  std::int32_t position(StorageIndex storage) const {
    const auto s = static_cast<std::size_t>(storage);
    return s < positions_.size() ? positions_[s] : kNone;
  }
  Scored scored(const Entry& entry, const Situation& at) const {
    return {policy_.score(entry.it, at), entry.sequence, entry.it.storage};
  }
  const Entry* choose_first_in_order();
  const Entry* choose_among_all(const Situation& at);
  const Entry* choose_from_sample(const Situation& at);
  const Entry* draw();

  const Policy& policy_;
  Options options_;
  std::mt19937_64 random_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> positions_;  // by storage
  std::vector<Scored> order_;            // heap for fixed scores; entries of the past are skipped
  std::vector<Scored> good_;             // left over from the last sample, best first
  std::vector<Scored> seen_;
  std::uint64_t sequence_ = 0;
};

}  // namespace ferry::swap
