// Figures on the logs that the authors of DTR published; skipped where the files are not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "swap/bound.h"
#include "swap/log_file.h"
#include "swap/planner.h"
#include "swap/replay.h"

namespace ferry::swap {
namespace {

struct Figures {
  double peak_mb, time_ms;
  double bound, bound_with_link;  // at half of the peak
  double planned, hybrid;         // what the planner must reach there, recomputing and with 12 GB/s
  std::map<double, double> dtr;   // overhead by budget; 0: out of memory
};

// unet cannot get closer: with what dropped storages are recomputed from, an exact solution of the instant of its peak
// gives at least 1.095 recomputing and 1.035 with the link.
const std::map<std::string, Figures> kFigures = {
    {"unet", {8416, 435.3, 1.053, 1.021, 1.099, 1.045, {{.9, 1.033}, {.7, 1.085}, {.5, 1.159}, {.3, 0}}}},
    {"resnet32", {10061, 291.9, 1.069, 1.050, 1.1035, 1.075, {{.9, 1.013}, {.7, 1.046}, {.5, 1.107}, {.3, 1.179}}}},
    {"transformer", {9864, 276.3, 1.046, 1.031, 1.069, 1.0465, {{.9, 1.009}, {.7, 1.031}, {.5, 1.058}, {.3, 1.123}}}},
};

class PublishedLog : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto path = std::filesystem::path(FERRY_PUBLISHED_LOGS) / (GetParam() + ".log.gz");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    iteration_ = read_iteration(path.string());
    base_ = unconstrained(iteration_);
  }
  Bytes part(double x) const { return Bytes{static_cast<std::int64_t>(static_cast<double>(base_.peak.count) * x)}; }
  double overhead(Nanoseconds time) const {
    return static_cast<double>(time.count()) / static_cast<double>(base_.time.count());
  }
  const Figures& figures() const { return kFigures.at(GetParam()); }

  Iteration iteration_;
  Unconstrained base_;
};

TEST_P(PublishedLog, BaseIsTheSimulators) {
  EXPECT_NEAR(static_cast<double>(base_.peak.count) / 1e6, figures().peak_mb, 1);
  EXPECT_NEAR(static_cast<double>(base_.time.count()) / 1e6, figures().time_ms, 0.1);
  const Link link{.out_bytes_per_second = 12e9, .in_bytes_per_second = 12e9};
  EXPECT_NEAR(overhead(lower_bound(iteration_, part(.5), Methods::recompute, {}).time), figures().bound, 0.001);
  EXPECT_NEAR(overhead(lower_bound(iteration_, part(.5), Methods::both, link).time), figures().bound_with_link, 0.001);
}

TEST_P(PublishedLog, DtrComesOutAsPublished) {
  for (const auto& [budget, expected] : figures().dtr) {
    const Cost cost = replay(iteration_, {.budget = part(budget)});
    fmt::print("{} dtr at {}: {}\n", GetParam(), budget,
               cost.feasible ? fmt::format("{:.3f}", overhead(cost.time)) : cost.reason);
    EXPECT_EQ(cost.feasible, expected > 0) << budget;
    EXPECT_NEAR(cost.feasible ? overhead(cost.time) : 0, expected, 0.02) << budget;
  }
}

TEST_P(PublishedLog, PlannedRecomputationBeatsEveryPolicy) {
  std::vector<Bytes> budgets;
  for (const double budget : {.3, .5, .7, .9}) budgets.push_back(part(budget));
  const std::vector<PlanResult> results = plan_ladder(iteration_, {.find_smallest = false}, budgets);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    ASSERT_TRUE(results[i].plan) << results[i].reason;
    const Plan& plan = *results[i].plan;
    fmt::print("{} planned recomputation at {:.1f}: {:.4f}, bound {:.4f}\n", GetParam(),
               static_cast<double>(budgets[i].count) / static_cast<double>(base_.peak.count), overhead(plan.cost.time),
               overhead(plan.bound.time));
    for (const std::string& policy : policy_names()) {
      const Cost cost = replay(iteration_, {.budget = budgets[i], .policy = policy});
      EXPECT_TRUE(!cost.feasible || plan.cost.time <= cost.time) << policy;
    }
    EXPECT_TRUE(i == 0 || plan.cost.time <= results[i - 1].plan->cost.time);
  }
  EXPECT_LE(overhead(results[1].plan->cost.time), figures().planned);
}

TEST_P(PublishedLog, PlannedHybridIsBetterStill) {
  const PlanResult recompute = make_plan(iteration_, {.budget = part(.5)});
  for (const double speed : {12e9, 50e9}) {
    const Link link{.out_bytes_per_second = speed, .in_bytes_per_second = speed};
    const PlanResult hybrid = make_plan(iteration_, {.budget = part(.5), .methods = Methods::both, .link = link});
    ASSERT_TRUE(recompute.plan && hybrid.plan);
    fmt::print("{} planned hybrid at 0.5 with {:.0f} GB/s: {:.4f}, bound {:.4f}\n", GetParam(), speed / 1e9,
               overhead(hybrid.plan->cost.time), overhead(hybrid.plan->bound.time));
    EXPECT_LT(hybrid.plan->cost.time, recompute.plan->cost.time);
    EXPECT_LE(overhead(hybrid.plan->cost.time), speed > 20e9 ? 1.03 : figures().hybrid);
  }
}

// Where the link carries what has to move, swapping costs nothing.
TEST_P(PublishedLog, PlannedSwapHidesBehindTheOps) {
  const Link link{.out_bytes_per_second = 50e9, .in_bytes_per_second = 50e9};
  const PlanResult swap = make_plan(iteration_, {.budget = part(.7), .methods = Methods::swap, .link = link});
  ASSERT_TRUE(swap.plan);
  EXPECT_EQ(swap.plan->cost.recompute, Nanoseconds{0});
  EXPECT_LE(overhead(swap.plan->cost.time), 1.03);
}

INSTANTIATE_TEST_SUITE_P(Logs, PublishedLog, ::testing::Values("unet", "resnet32", "transformer"),
                         [](const auto& log) { return log.param; });

}  // namespace
}  // namespace ferry::swap
