#include "swap/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ferry/error.h>
#include "swap/bound.h"
#include "tests/swap/cases.h"
#include "tests/swap/program_checker.h"

namespace ferry::swap {
namespace {

using namespace std::chrono_literals;

constexpr Link kLink{.out_bytes_per_second = 2e9, .in_bytes_per_second = 3e9, .latency = Nanoseconds(20)};

Bytes part_of(Bytes bytes, int percent) { return Bytes{bytes.count * percent / 100}; }

TEST(Replay, WithoutPressureNothingIsDone) {
  const Iteration iteration = testing::chain(10, kMiB, 1ms);
  const Unconstrained base = unconstrained(iteration);
  const Cost cost = replay(iteration, {.budget = base.peak});
  EXPECT_TRUE(cost.feasible);
  EXPECT_EQ(cost.time, base.time);
  EXPECT_EQ(cost.peak, base.peak);
  EXPECT_EQ(cost.decisions, 0);
}

TEST(Replay, RecomputesUnderABudget) {
  const Iteration iteration = testing::chain(20, kMiB, 1ms);
  const Unconstrained base = unconstrained(iteration);
  const Cost cost = replay(iteration, {.budget = part_of(base.peak, 50)});
  ASSERT_TRUE(cost.feasible) << cost.reason;
  EXPECT_GT(cost.recompute, 0ns);
  EXPECT_EQ(cost.time, base.time + cost.recompute);
  EXPECT_LE(cost.peak, part_of(base.peak, 50));
}

TEST(Replay, SaysWhyItFails) {
  const Iteration iteration = testing::chain(20, kMiB, 1ms);
  const Cost tiny = replay(iteration, {.budget = kMiB});
  EXPECT_FALSE(tiny.feasible);
  EXPECT_NE(tiny.reason.find("out of memory"), std::string::npos) << tiny.reason;
  const Cost slow = replay(iteration, {.budget = kMiB * 12, .policy = "lru", .time_limit = 1.001});
  EXPECT_FALSE(slow.feasible);
  EXPECT_NE(slow.reason.find("thrashing"), std::string::npos) << slow.reason;
  EXPECT_THROW(replay(iteration, {.budget = kGiB, .policy = "best"}), InvalidArgument);
  EXPECT_THROW(replay(iteration, {.budget = kGiB, .methods = Methods::swap}), InvalidArgument);
}

TEST(Replay, SwapMovesBytesInsteadOfRunningOpsAgain) {
  const Iteration iteration = testing::chain(20, kMiB, 1ms);
  const Cost cost = replay(iteration, {.budget = kMiB * 10, .policy = "lru", .methods = Methods::swap, .link = kLink});
  ASSERT_TRUE(cost.feasible) << cost.reason;
  EXPECT_EQ(cost.recompute, 0ns);
  EXPECT_GT(cost.bytes_out, kMiB * 5);
  EXPECT_GT(cost.bytes_in, kMiB * 5);
}

// The way back to the first value is 100,000 ops long, with room for a few values.
TEST(Replay, LongChainsNeedNoRecursion) {
  IterationBuilder builder;
  TensorIndex last = builder.add_input("x", Bytes{10}, IterationBuilder::Residency::pinned);
  std::vector<TensorIndex> made;
  for (int i = 0; i < 100'000; ++i) {
    last = builder.run("f", 10ns, {last}, {{.name = "y", .size = Bytes{100}}});
    made.push_back(last);
  }
  builder.run("last", 10ns, {made[made.size() - 2]}, {{.name = "z", .size = Bytes{300}}});
  for (const TensorIndex t : made) builder.release(t);
  const Iteration iteration = std::move(builder).build();
  // The last op evicts what it must; its input then has to be computed from the start again.
  for (const char* policy : {"lru", "dtr"}) {
    const Cost cost = replay(iteration, {.budget = Bytes{1000}, .policy = policy, .time_limit = 0});
    EXPECT_TRUE(cost.feasible) << policy << ": " << cost.reason;
  }
}

// Replays and checks what was done, step by step; returns whether it was feasible.
bool replays(const Iteration& iteration, ReplayOptions options) {
  Program program;
  options.link = kLink;
  options.time_limit = 100;
  options.record = &program;
  const Cost cost = replay(iteration, options);
  if (!cost.feasible) return false;
  const testing::Checked checked = testing::check_program(iteration, program, options.budget, kLink);
  EXPECT_EQ(checked.problem, "");
  EXPECT_EQ(checked.time, cost.time);
  EXPECT_EQ(checked.peak, cost.peak);
  const Cost again = evaluate(iteration, program, options.budget, kLink);
  EXPECT_TRUE(again.feasible) << again.reason;
  EXPECT_EQ(again.time, cost.time);
  EXPECT_LE(evaluate(iteration, program, options.budget + Bytes{777}, kLink).time, cost.time)
      << "more memory makes the same steps slower";
  if (options.methods == Methods::recompute) {
    const Bound bound = lower_bound(iteration, options.budget, options.methods, {});
    EXPECT_TRUE(bound.feasible);
    EXPECT_GE(cost.time, bound.time);
  }
  return true;
}

TEST(Replay, EveryPolicyOnRandomPrograms) {
  std::int64_t feasible = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    const Iteration iteration = testing::random_program(seed, 80);
    const Bytes peak = unconstrained(iteration).peak;
    for (const std::string& policy : policy_names()) {
      for (const Methods methods : {Methods::recompute, Methods::swap, Methods::both}) {
        for (const int percent : {100, 80, 60, 45}) {
          SCOPED_TRACE(fmt::format("seed {} {} methods {} {} %", seed, policy, static_cast<int>(methods), percent));
          const bool works =
              replays(iteration, {.budget = part_of(peak, percent), .policy = policy, .methods = methods});
          EXPECT_TRUE(works || percent < 100);
          feasible += works;
        }
      }
    }
  }
  EXPECT_GT(feasible, 2000);
}

TEST(Evaluate, RefusesWrongPrograms) {
  const Iteration iteration = testing::chain(3, kMiB, 1ms);
  Program program;
  ASSERT_TRUE(replay(iteration, {.budget = kGiB, .record = &program}).feasible);
  ASSERT_TRUE(evaluate(iteration, program, kGiB, {}).feasible);
  EXPECT_FALSE(evaluate(iteration, program, kMiB * 2, {}).feasible);
  for (std::size_t i = 0; i < program.size(); ++i) {
    Program shorter = program;
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(evaluate(iteration, shorter, kGiB, {}).feasible, program[i].kind == Step::Kind::drop) << i;
    Program wild = program;
    wild[i].index = 1'000'000;
    EXPECT_FALSE(evaluate(iteration, wild, kGiB, {}).feasible) << i;
  }
}

}  // namespace
}  // namespace ferry::swap
