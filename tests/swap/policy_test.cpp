#include "swap/policy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ferry/error.h>
#include "swap/neighborhood.h"
#include "swap/victim_pool.h"

namespace ferry::swap {
namespace {

using namespace std::chrono_literals;

TEST(Neighborhood, SumsEvictedNeighboursOnce) {
  // 0 -> 1 -> 2 -> 3, and 0 -> 3.
  Neighborhood neighborhood;
  const auto op = [&](std::vector<StorageIndex> reads, StorageIndex write, Nanoseconds time) {
    neighborhood.add_op(reads, std::vector<StorageIndex>{write}, time);
  };
  op({}, 0, 1ns);
  op({0}, 1, 10ns);
  op({1}, 2, 100ns);
  op({2, 0}, 3, 1000ns);
  EXPECT_EQ(neighborhood.neighbors_cost(1), 0ns);
  neighborhood.evicted(2);
  EXPECT_EQ(neighborhood.neighbors_cost(1), 100ns);
  EXPECT_EQ(neighborhood.neighbors_cost(3), 100ns);
  neighborhood.evicted(1);
  EXPECT_EQ(neighborhood.neighbors_cost(3), 110ns) << "one component";
  EXPECT_EQ(neighborhood.neighbors_cost(0), 110ns);
  EXPECT_EQ(neighborhood.ancestors_cost(3, 100), 110ns);
  EXPECT_EQ(neighborhood.ancestors_cost(3, 1), 100ns);
  EXPECT_EQ(neighborhood.ancestors_cost(0, 100), 0ns);
  neighborhood.restored(2);
  EXPECT_EQ(neighborhood.neighbors_cost(3), 0ns);
  EXPECT_EQ(neighborhood.neighbors_cost(0), 10ns);
  neighborhood.restored(1);
  EXPECT_EQ(neighborhood.neighbors_cost(0), 0ns);
  // A view counts with the storage it is a view of.
  neighborhood.add_op(std::vector<StorageIndex>{1}, std::vector<StorageIndex>{1}, 5ns);
  EXPECT_EQ(neighborhood.own_cost(1), 15ns);
}

class Scores : public ::testing::Test {
 protected:
  Scores() {
    neighborhood_.add_op(std::vector<StorageIndex>{}, std::vector<StorageIndex>{0}, 50ns);
    neighborhood_.add_op(std::vector<StorageIndex>{0}, std::vector<StorageIndex>{1}, 200ns);
    neighborhood_.add_op(std::vector<StorageIndex>{1}, std::vector<StorageIndex>{2}, 800ns);
    neighborhood_.evicted(0);
    neighborhood_.evicted(2);
  }
  double score(std::string_view policy, Methods methods = Methods::recompute) const {
    const Evictable it{.storage = 1, .size = Bytes{10}, .last_access = 70ns, .swap_time = 400ns};
    return make_policy(policy)->score(
        it, {.now = 90ns, .methods = methods, .neighborhood = neighborhood_, .link_wait = 100ns});
  }
  Neighborhood neighborhood_;
};

TEST_F(Scores, FollowTheirFormulas) {
  EXPECT_DOUBLE_EQ(score("dtr"), 1050.0 / (10 * 20));
  EXPECT_DOUBLE_EQ(score("dtr_local"), 200.0 / (10 * 20));
  EXPECT_DOUBLE_EQ(score("msps"), 250.0 / 10);
  EXPECT_DOUBLE_EQ(score("lru"), 70);
  EXPECT_DOUBLE_EQ(score("largest"), 0.1);
  EXPECT_DOUBLE_EQ(score("hybrid"), 1050.0 / (10 * 20));
  EXPECT_DOUBLE_EQ(score("hybrid", Methods::both), 500.0 / (10 * 20));
  EXPECT_DOUBLE_EQ(score("dtr", Methods::swap), 500.0 / (10 * 20));
}

TEST(PolicyList, KnowsItsNames) {
  EXPECT_EQ(policy_names().size(), 7u);
  for (const std::string& name : policy_names()) EXPECT_NE(make_policy(name), nullptr);
  EXPECT_THROW(make_policy("belady"), InvalidArgument);
  EXPECT_THROW(parse_methods("magic"), InvalidArgument);
}

TEST(VictimPool, OfEqualScoresTheLatestGoesFirst) {
  const auto policy = make_policy("dtr_local");
  VictimPool pool(*policy, {.minimum_size = Bytes{2}});
  Neighborhood neighborhood;
  for (StorageIndex s = 0; s < 4; ++s)
    neighborhood.add_op(std::vector<StorageIndex>{}, std::vector<StorageIndex>{s}, 5ns);
  const Situation at{.now = 100ns, .neighborhood = neighborhood};
  EXPECT_FALSE(pool.choose(at));
  for (StorageIndex s = 0; s < 3; ++s) pool.add({.storage = s, .size = Bytes{8}}, at);
  pool.add({.storage = 3, .size = Bytes{1}}, at);
  EXPECT_FALSE(pool.contains(3)) << "below the minimum";
  EXPECT_EQ(pool.choose(at)->storage, 2);
  pool.remove(2);
  EXPECT_EQ(pool.choose(at)->storage, 1);
  pool.remove(0);
  pool.add({.storage = 0, .size = Bytes{8}}, at);
  EXPECT_EQ(pool.choose(at)->storage, 0);
}

// A policy that counts its scores.
class Counting final : public Policy {
 public:
  explicit Counting(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}
  Scores scores() const override { return policy_->scores(); }
  double score(const Evictable& it, const Situation& at) const override {
    ++count_;
    return policy_->score(it, at);
  }
  std::int64_t count() const { return count_; }

 private:
  std::unique_ptr<Policy> policy_;
  mutable std::int64_t count_ = 0;
};

// Of 100,000 live storages a decision looks at few; benchmarks/budget_decisions says how long that takes.
TEST(VictimPool, LooksAtFewOfManyStorages) {
  constexpr int kLive = 100'000, kDecisions = 200;
  Neighborhood neighborhood;
  for (StorageIndex s = 0; s < kLive + kDecisions; ++s)
    neighborhood.add_op(std::vector<StorageIndex>{}, std::vector{s}, Nanoseconds(1 + s % 97));
  const Situation at{.now = Nanoseconds(kLive), .methods = Methods::both, .neighborhood = neighborhood};
  const auto evictable = [](StorageIndex s) {
    return Evictable{.storage = s, .size = Bytes{1 + s * 7919 % 100'003}, .last_access = Nanoseconds(s / 2)};
  };
  for (const std::string& name : policy_names()) {
    for (const bool sqrt_sampling : {false, true}) {
      const Counting policy(make_policy(name));
      VictimPool pool(policy, {.sqrt_sampling = sqrt_sampling});
      for (StorageIndex s = 0; s < kLive; ++s) pool.add(evictable(s), at);
      const std::int64_t before = policy.count();
      for (int i = 0; i < kDecisions; ++i) {
        pool.remove(pool.choose(at)->storage);
        pool.add(evictable(kLive + i), at);
      }
      EXPECT_LE(policy.count() - before, kDecisions * 128) << name;
    }
  }
}

// A sample must come close to the best: the score of what it picks is among the lowest of all.
TEST(VictimPool, SamplesPickGoodVictims) {
  constexpr int kLive = 20'000;
  const auto policy = make_policy("dtr_local");
  VictimPool pool(*policy, {});
  Neighborhood neighborhood;
  std::vector<double> scores;
  const Situation at{.now = Nanoseconds(100'000), .neighborhood = neighborhood};
  for (StorageIndex s = 0; s < kLive; ++s) {
    neighborhood.add_op(std::vector<StorageIndex>{}, std::vector{s}, Nanoseconds(1 + s * 31 % 9973));
    const Evictable it{.storage = s, .size = Bytes{1 + s * 7919 % 100'003}, .last_access = Nanoseconds(s)};
    pool.add(it, at);
    scores.push_back(policy->score(it, at));
  }
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted);
  double rank = 0;
  for (int i = 0; i < 200; ++i) {
    const StorageIndex victim = pool.choose(at)->storage;
    rank += static_cast<double>(std::ranges::lower_bound(sorted, scores[static_cast<std::size_t>(victim)]) -
                                sorted.begin());
    pool.remove(victim);
  }
  EXPECT_LT(rank / 200, kLive * 0.02);
}

}  // namespace
}  // namespace ferry::swap
