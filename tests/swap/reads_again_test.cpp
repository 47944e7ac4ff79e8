// Ops that read other tensors when they run again than the first time, some of their own results among them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <ferry/error.h>
#include "swap/planner.h"
#include "swap/replay.h"
#include "swap/uses.h"
#include "tests/swap/program_checker.h"

namespace ferry::swap {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Bytes kBudget{320};
constexpr Link kLink{.out_bytes_per_second = 1e9, .in_bytes_per_second = 2e9};

enum class Reads { same, others };
enum class Statistics { kept, gone };  // when z is needed again
using Recompute = IterationBuilder::Recompute;

enum : OpIndex { kConv, kNorm, kRelu, kWide, kLast };
enum : StorageIndex { kX, kC, kY, kS, kZ, kW };  // a tensor each, with the same index

// c is made of x; norm makes y of it, and s, which stays as it is; relu makes z of y, which goes. Again both are made
// of c and s. Beside what `wide` makes there is no room for c and z, and the last op reads both.
Iteration norm_and_relu(Reads reads, Statistics statistics, Recompute c = Recompute::yes, Nanoseconds conv = 100ns) {
  IterationBuilder builder;
  builder.add_input("x", Bytes{10}, IterationBuilder::Residency::pinned);
  builder.run("conv", conv, {kX}, {{.name = "c", .size = Bytes{100}, .recompute = c}});
  builder.run("norm", 10ns, {kC},
              {{.name = "y", .size = Bytes{100}}, {.name = "s", .size = Bytes{4}, .recompute = Recompute::no}});
  if (reads == Reads::others) builder.reads_again({kC, kS});
  builder.run("relu", 5ns, {kY}, {{.name = "z", .size = Bytes{100}}});
  if (reads == Reads::others) builder.reads_again({kC, kS});
  builder.release(kY);
  if (statistics == Statistics::gone) builder.release(kS);
  builder.run("wide", 50ns, {}, {{.name = "w", .size = Bytes{150}}});
  builder.release(kW);
  std::vector<TensorIndex> last = {kZ, kC};
  if (statistics == Statistics::kept) last.push_back(kS);
  builder.run("last", 20ns, last, {{.name = "r", .size = Bytes{1}}});
  for (const TensorIndex t : last) builder.release(t);
  return std::move(builder).build();
}
constexpr Nanoseconds kBase = 185ns;

Step run(OpIndex op) { return {Step::Kind::run, op}; }
Step drop(StorageIndex storage) { return {Step::Kind::drop, storage}; }

Program program_of(std::vector<Step> between, std::vector<Step> before_last) {
  Program program = {{Step::Kind::create, kX}, run(kConv), run(kNorm), run(kRelu)};
  program.insert(program.end(), between.begin(), between.end());
  for (const Step& step : {run(kWide), drop(kW)}) program.push_back(step);
  program.insert(program.end(), before_last.begin(), before_last.end());
  program.push_back(run(kLast));
  return program;
}

std::ptrdiff_t runs(const Program& program, OpIndex op) { return std::ranges::count(program, run(op)); }

void expect_right(const Plan& plan, const Iteration& iteration) {
  const testing::Checked checked = testing::check_program(iteration, plan.program, plan.budget, plan.link);
  EXPECT_EQ(checked.problem, "");
  EXPECT_EQ(checked.time, plan.cost.time);
  EXPECT_LE(plan.bound.time, plan.cost.time);
}

TEST(ReadsAgain, AnOpRunsAgainWithoutWhatItReadFirst) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::kept);
  const Cost cost = evaluate(iteration, program_of({drop(kY), drop(kZ)}, {run(kRelu)}), kBudget, {});
  EXPECT_TRUE(cost.feasible) << cost.reason;
  EXPECT_EQ(cost.time, kBase + 5ns);
  EXPECT_EQ(cost.recompute, 5ns);
  EXPECT_EQ(cost.peak, Bytes{314});
  const Cost plain = evaluate(norm_and_relu(Reads::same, Statistics::kept),
                              program_of({drop(kY), drop(kZ)}, {run(kRelu)}), kBudget, {});
  EXPECT_FALSE(plain.feasible);
  EXPECT_THAT(plain.reason, HasSubstr("without its input 'y'"));
}

TEST(ReadsAgain, ItsOwnResultsAreThereOrItDoesNot) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::kept);
  const Program again = program_of({drop(kY), drop(kZ)}, {run(kNorm), drop(kY), run(kRelu)});
  const Cost cost = evaluate(iteration, again, kBudget, {});
  EXPECT_TRUE(cost.feasible) << cost.reason;
  EXPECT_EQ(cost.time, kBase + 15ns);
  for (const StorageIndex missing : {kS, kC}) {
    Program program = program_of({drop(kY), drop(kZ), drop(missing)}, {run(kNorm)});
    const Cost lacks = evaluate(iteration, program, kBudget, {});
    EXPECT_FALSE(lacks.feasible);
    EXPECT_THAT(lacks.reason, HasSubstr(missing == kS ? "without its input 's'" : "without its input 'c'"));
    EXPECT_THAT(testing::check_program(iteration, program, kBudget, {}).problem, HasSubstr("lacks"));
  }
}

TEST(ReadsAgain, TheFirstTimeItReadsItsInputs) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::kept);
  const Program program = {{Step::Kind::create, kX}, run(kConv), run(kNorm), drop(kY), run(kRelu)};
  EXPECT_THAT(evaluate(iteration, program, kBudget, {}).reason, HasSubstr("without its input 'y'"));
}

TEST(ReadsAgain, UsesKnowWhatARecomputationTakes) {
  const Iteration others = norm_and_relu(Reads::others, Statistics::kept);
  EXPECT_EQ(Uses(others).recompute_cost(kZ, kLast), 5ns);
  EXPECT_EQ(Uses(others).recompute_cost(kY, kLast), 10ns);
  const Iteration same = norm_and_relu(Reads::same, Statistics::gone);
  EXPECT_EQ(Uses(same).recompute_cost(kZ, kLast), 15ns) << "y has to be made, too";
  const Iteration gone = norm_and_relu(Reads::others, Statistics::gone);
  EXPECT_EQ(Uses(gone).recompute_cost(kZ, kLast), Uses::kImpossible);
  EXPECT_EQ(Uses(gone).recompute_cost(kY, kLast), Uses::kImpossible);
  EXPECT_EQ(Uses(gone).recompute_cost(kC, kLast), 100ns);
}

// It takes what costs least for its size: z.
TEST(ReadsAgain, PoliciesRunTheOpAlone) {
  const ReplayOptions options{.budget = kBudget, .policy = "msps"};
  Program program;
  ReplayOptions recorded = options;
  recorded.record = &program;
  const Iteration others = norm_and_relu(Reads::others, Statistics::kept);
  const Cost cost = replay(others, recorded);
  EXPECT_TRUE(cost.feasible) << cost.reason;
  EXPECT_EQ(cost.time, kBase + 5ns);
  EXPECT_EQ(runs(program, kNorm), 1);
  EXPECT_EQ(testing::check_program(others, program, kBudget, {}).problem, "");
  EXPECT_EQ(replay(norm_and_relu(Reads::same, Statistics::kept), options).time, kBase + 15ns);
  EXPECT_THAT(replay(norm_and_relu(Reads::others, Statistics::gone), options).reason,
              HasSubstr("'s' is needed again and cannot be recomputed"));
}

// With y, which is gone, z would cost more than c.
TEST(ReadsAgain, PoliciesDoNotCountWhatIsNotRead) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::kept, Recompute::yes, 12ns);
  const Cost cost = replay(iteration, {.budget = kBudget, .policy = "msps"});
  EXPECT_EQ(cost.recompute, 5ns) << cost.reason;
}

TEST(ReadsAgain, ThePlannerTakesTheCheaperWay) {
  const PlannerOptions options{.budget = kBudget, .trials = 50};
  const Iteration others = norm_and_relu(Reads::others, Statistics::kept);
  const PlanResult cheap = make_plan(others, options);
  ASSERT_TRUE(cheap.plan) << cheap.reason;
  EXPECT_EQ(cheap.plan->cost.time, kBase + 5ns);
  EXPECT_EQ(runs(cheap.plan->program, kRelu), 2);
  EXPECT_EQ(runs(cheap.plan->program, kNorm), 1);
  expect_right(*cheap.plan, others);
  const Iteration same = norm_and_relu(Reads::same, Statistics::kept);
  const PlanResult dear = make_plan(same, options);
  ASSERT_TRUE(dear.plan) << dear.reason;
  EXPECT_EQ(dear.plan->cost.time, kBase + 15ns);
  expect_right(*dear.plan, same);
}

TEST(ReadsAgain, WhatCannotBeMadeAgainIsKept) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::gone);
  const PlanResult result = make_plan(iteration, {.budget = kBudget, .trials = 50});
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(result.plan->cost.time, kBase + 100ns) << "c is dropped instead";
  EXPECT_EQ(runs(result.plan->program, kConv), 2);
  EXPECT_EQ(runs(result.plan->program, kRelu), 1);
  expect_right(*result.plan, iteration);
}

TEST(ReadsAgain, WhatCannotBeMadeAgainIsSwapped) {
  const Iteration iteration = norm_and_relu(Reads::others, Statistics::gone, Recompute::no);
  const PlannerOptions options{.budget = kBudget, .trials = 50, .find_smallest = false};
  EXPECT_FALSE(make_plan(iteration, options).plan);
  PlannerOptions swaps = options;
  swaps.methods = Methods::both;
  swaps.link = kLink;
  const PlanResult result = make_plan(iteration, swaps);
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(result.plan->cost.recompute, 0ns);
  EXPECT_EQ(result.plan->cost.bytes_out, Bytes{100});
  EXPECT_EQ(result.plan->cost.bytes_in, Bytes{100});
  // z leaves when it is made, from 115 to 215; wide waits for that, and the last op for its way back. c may leave
  // earlier.
  EXPECT_LE(result.plan->cost.time, 215ns + 50ns + 50ns + 20ns);
  expect_right(*result.plan, iteration);
}

TEST(ReadsAgain, APlanIsForAnIterationThatReadsTheSame) {
  const Iteration others = norm_and_relu(Reads::others, Statistics::kept),
                  same = norm_and_relu(Reads::same, Statistics::kept);
  EXPECT_NE(fingerprint(others), fingerprint(same));
  const PlanResult result = make_plan(others, {.budget = kBudget, .trials = 50});
  ASSERT_TRUE(result.plan) << result.reason;
  const std::string text = plan_to_json(*result.plan, others);
  EXPECT_EQ(plan_from_json(text, "plan.json", others).cost.time, kBase + 5ns);
  EXPECT_THROW(plan_from_json(text, "plan.json", same), ParseError);
}

}  // namespace
}  // namespace ferry::swap
