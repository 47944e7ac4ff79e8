#include "swap/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <ferry/error.h>
#include "swap/replay.h"
#include "tests/swap/cases.h"
#include "tests/swap/program_checker.h"

namespace ferry::swap {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Link kLink{.out_bytes_per_second = 2e9, .in_bytes_per_second = 3e9, .latency = Nanoseconds(20)};

Bytes part_of(Bytes bytes, int percent) { return Bytes{bytes.count * percent / 100}; }

void expect_right(const Plan& plan, const Iteration& iteration) {
  const testing::Checked checked = testing::check_program(iteration, plan.program, plan.budget, plan.link);
  EXPECT_EQ(checked.problem, "");
  EXPECT_EQ(checked.time, plan.cost.time);
  EXPECT_LE(checked.peak, plan.budget);
}

TEST(Planner, KeepsEverythingWhereThereIsRoom) {
  const Iteration iteration = testing::chain(8, kMiB, 1ms);
  const Unconstrained base = unconstrained(iteration);
  const PlanResult result = make_plan(iteration, {.budget = base.peak, .trials = 10});
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->cost.time, base.time);
  for (const StoragePlan& it : decisions(*result.plan, iteration)) EXPECT_EQ(it.choice, Choice::keep);
}

// Under sanitizers.
bool is_brief() { return std::getenv("FERRY_TEST_BRIEF") != nullptr; }

TEST(Planner, IsRightAndNoWorseThanAnyPolicyOnRandomPrograms) {
  int plans = 0;
  const std::uint64_t last = is_brief() ? 105 : 129;
  for (std::uint64_t seed = 100; seed <= last && !HasFailure(); ++seed) {
    const Iteration iteration = testing::random_program(seed, 60);
    const Bytes peak = unconstrained(iteration).peak;
    for (const Methods methods : {Methods::recompute, Methods::swap, Methods::both}) {
      for (const int percent : {90, 70, 55}) {
        SCOPED_TRACE(fmt::format("seed {} methods {} {} %", seed, static_cast<int>(methods), percent));
        const PlannerOptions options{.budget = part_of(peak, percent),
                                     .methods = methods,
                                     .link = methods == Methods::recompute ? Link{} : kLink,
                                     .trials = 60,
                                     .find_smallest = false};
        const PlanResult result = make_plan(iteration, options);
        if (result.plan) expect_right(*result.plan, iteration);
        plans += result.plan.has_value();
        for (const std::string& policy : policy_names()) {
          const Cost cost =
              replay(iteration, {.budget = options.budget, .policy = policy, .methods = methods, .link = options.link});
          EXPECT_TRUE(!cost.feasible || (result.plan && result.plan->cost.time <= cost.time)) << policy;
        }
      }
    }
  }
  EXPECT_GT(plans, 3 * static_cast<int>(last - 99));
}

TEST(Planner, TheSameInputGivesTheSamePlan) {
  const Iteration iteration = testing::random_program(7, 80);
  const PlannerOptions options{
      .budget = part_of(unconstrained(iteration).peak, 85), .methods = Methods::both, .link = kLink, .trials = 100};
  const PlanResult first = make_plan(iteration, options), second = make_plan(iteration, options);
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(first.plan->program, second.plan->program);
}

TEST(Planner, SearchesAsLongAsItsEffortSays) {
  const Iteration iteration = testing::chain(30, kMiB, 100us);  // something has to wait whatever the plan
  PlannerOptions options{
      .budget = part_of(unconstrained(iteration).peak, 50), .methods = Methods::both, .link = kLink, .effort = 0.01};
  const PlanResult quick = make_plan(iteration, options);
  options.effort = 0.1;
  const PlanResult longer = make_plan(iteration, options);
  ASSERT_TRUE(quick.plan && longer.plan);
  EXPECT_GT(longer.trials, 2 * quick.trials);
  EXPECT_LE(longer.plan->cost.time, quick.plan->cost.time);
  options.effort = 0;
  EXPECT_THROW(make_plan(iteration, options), InvalidArgument);
}

TEST(Planner, TimeNeverRisesOverALadderOfBudgets) {
  const std::uint64_t last = is_brief() ? 3 : 8;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    const Iteration iteration = seed == 1 ? testing::chain(30, kMiB, 1ms) : testing::random_program(seed, 60);
    const Bytes peak = unconstrained(iteration).peak;
    std::vector<Bytes> budgets;
    for (const int percent : {80, 40, 100, 50, 65, 90, 55, 70, 45}) budgets.push_back(part_of(peak, percent));
    const std::vector<PlanResult> results = plan_ladder(
        iteration, {.methods = Methods::both, .link = kLink, .trials = 20, .find_smallest = false}, budgets);
    for (std::size_t a = 0; a < budgets.size(); ++a) {
      for (std::size_t b = 0; b < budgets.size(); ++b) {
        if (budgets[a] >= budgets[b] || !results[a].plan) continue;
        ASSERT_TRUE(results[b].plan) << seed;
        EXPECT_LE(results[b].plan->cost.time, results[a].plan->cost.time) << seed;
      }
    }
  }
}

TEST(Planner, NamesTheSmallestBudgetAndItWorks) {
  const Iteration iteration = testing::chain(40, kMiB, 1ms);
  PlannerOptions options{.budget = kMiB * 2, .reserve = 0.1, .trials = 20};
  const PlanResult refused = make_plan(iteration, options);
  EXPECT_FALSE(refused.plan);
  EXPECT_THAT(refused.reason, HasSubstr("out of memory"));
  ASSERT_TRUE(refused.smallest);
  EXPECT_LT(*refused.smallest, kMiB * 12);
  options.budget = *refused.smallest;
  const PlanResult kept = make_plan(iteration, options);
  ASSERT_TRUE(kept.plan);
  EXPECT_LE(kept.plan->cost.peak.count, options.budget.count * 9 / 10) << "the reserve stays free";
  expect_right(*kept.plan, iteration);
}

TEST(Planner, RefusesWrongOptions) {
  const Iteration iteration = testing::chain(4, kMiB, 1ms);
  EXPECT_THROW(make_plan(iteration, {.budget = kGiB, .methods = Methods::swap}), InvalidArgument);
  EXPECT_THROW(make_plan(iteration, {.budget = kGiB, .reserve = 1}), InvalidArgument);
}

class SavedPlan : public ::testing::Test {
 protected:
  SavedPlan()
      : iteration_(testing::chain(20, kMiB, 1ms)),
        plan_(
            *make_plan(iteration_, {.budget = kMiB * 9, .methods = Methods::both, .link = kLink, .trials = 50}).plan) {}
  std::string error_of(const std::string& text, const Iteration& iteration) const {
    try {
      plan_from_json(text, "plan.json", iteration);
    } catch (const ParseError& error) {
      return error.what();
    }
    return "no error";
  }
  Iteration iteration_;
  Plan plan_;
};

TEST_F(SavedPlan, IsReadAsItWas) {
  const Plan read = plan_from_json(plan_to_json(plan_, iteration_), "plan.json", iteration_);
  EXPECT_EQ(read.program, plan_.program);
  EXPECT_EQ(read.budget, plan_.budget);
  EXPECT_EQ(read.methods, plan_.methods);
  EXPECT_EQ(read.cost.time, plan_.cost.time);
  EXPECT_EQ(read.bound.time, plan_.bound.time);
}

TEST_F(SavedPlan, IsNotUsedForAnotherIteration) {
  const Iteration longer = testing::chain(21, kMiB, 1ms), larger = testing::chain(20, kMiB * 2, 1ms);
  EXPECT_TRUE(matches(plan_, iteration_));
  EXPECT_TRUE(matches(plan_, testing::chain(20, kMiB, 2ms))) << "times differ from step to step";
  EXPECT_FALSE(matches(plan_, longer));
  EXPECT_FALSE(matches(plan_, larger));
  EXPECT_THAT(error_of(plan_to_json(plan_, iteration_), longer), HasSubstr("another iteration"));
  const PlanResult other = make_plan(longer, {.budget = kMiB * 9, .trials = 5}, std::span(&plan_, 1));
  ASSERT_TRUE(other.plan);
  expect_right(*other.plan, longer);
}

TEST_F(SavedPlan, DamageIsSaid) {
  const std::string good = plan_to_json(plan_, iteration_);
  EXPECT_EQ(error_of(good, iteration_), "no error");
  EXPECT_THAT(error_of("", iteration_), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of("{}", iteration_), HasSubstr("no field 'ferry_plan'"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(error_of(changed("\"methods\":\"both\"", "\"methods\":\"luck\""), iteration_), HasSubstr("luck"));
  EXPECT_THAT(error_of(changed("[\"run\",0]", "[\"run\",1]"), iteration_), HasSubstr("does not work"));
  EXPECT_THAT(error_of(changed("[\"run\",0]", "[\"run\"]"), iteration_), HasSubstr("has the step"));
}

TEST_F(SavedPlan, ExplainsItself) {
  const std::string text = explain(plan_, iteration_);
  EXPECT_THAT(text, HasSubstr("above the lower bound"));
  EXPECT_THAT(text, HasSubstr("y3"));
  int away = 0;
  for (const StoragePlan& it : decisions(plan_, iteration_)) {
    for (const Window& window : it.windows) {
      ++away;
      EXPECT_LT(window.leaves_after, window.back_before);
      EXPECT_LE(window.back_before, window.needed_by);
    }
  }
  EXPECT_GT(away, 5);
}

}  // namespace
}  // namespace ferry::swap
