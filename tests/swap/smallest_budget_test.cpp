// The smallest budget that the planner names for an iteration, it keeps; the one that the runtime names trains models,
// as does every larger one; planned time never rises with the budget. On a simulated GPU in timing-only mode, for
// models and for random programs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include <ferry/models.h>
#include <ferry/optim.h>
#include <ferry/swap.h>
#include "src/runtime/budget.h"
#include "swap/planner.h"
#include "tests/support/runtime_fixture.h"
#include "tests/swap/budget_run.h"
#include "tests/swap/training_blocks.h"
#include "tests/swap/training_program.h"

namespace ferry::test {
namespace {

using ::testing::HasSubstr;

constexpr double kEffort = 0.05;
constexpr int kSteps = 4;  // the first makes state, the second is recorded as later ones are, the rest is planned
constexpr std::array kLadder{1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3};

// Steps of a training loop on the current runtime.
using Loop = std::function<void(const std::function<void()>& after_step)>;

struct Case {
  std::string name;
  Loop loop;
  double works_from = 1;  // times the smallest budget named
};
std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

Case model_case(const char* name, std::int64_t batch, const models::Options& options) {
  std::string title(name);
  std::ranges::replace(title, '-', '_');
  return {title, [=](const std::function<void()>& after_step) {
            const auto model = models::make(name, options);
            optim::Sgd optimizer(*model, {.rate = 0.1, .momentum = 0.9});
            for (int i = 0; i < kSteps; ++i) {
              model->loss(model->random_batch(batch, 0)).backward();
              optimizer.step();
              optimizer.zero_grad();
              after_step();
            }
          }};
}

// Without what needs values, and with steps that repeat. So large that their tensors are not of the small pool.
Case program_case(std::uint64_t seed) {
  ProgramSpec spec = random_spec(seed);
  spec.steps = kSteps;
  spec.repeats = true;
  spec.batch_changes = spec.late_zero = spec.reads_every_step = false;
  spec.batch = 64 * 256;
  std::erase_if(spec.blocks, [](const BlockSpec& block) {
    const std::string_view kind = block_kinds()[block.kind].name;
    return kind == "steered_by_a_value" || kind == "shaped_by_tensors";
  });
  for (std::size_t i = 0; i < spec.blocks.size(); ++i)
    for (std::size_t* input : {&spec.blocks[i].a, &spec.blocks[i].b})
      *input = std::min(*input, ProgramSpec::kInputs + i - 1);
  return {.name = fmt::format("program_{}", seed),
          .loop =
              [spec](const std::function<void()>& after_step) {
                TrainingProgram program(spec);
                for (int step = 0; step < spec.steps; ++step) {
                  program.step(step);
                  if (program.steps_by_hand()) current_core()->budget()->engine().next_iteration();
                  after_step();
                }
              },
          // What is computed again before there is a plan may need more than the plan.
          .works_from = 1.25};
}

struct Outcome {
  std::string shortage{};  // empty: all steps ended
  int steps = 0;
  Bytes reserved{}, smallest{};
  swap::Iteration iteration{};  // the last
  swap::Link link{};
};

Outcome run(const Case& test, Bytes size, bool asks_for_smallest = false) {
  CheckedRuntime runtime({"sim", {.device = "sim:rtx2080ti", .device_memory = kGiB * 64, .values = false}});
  MemoryBudget budget(MemoryBudgetOptions{.size = std::to_string(size.count), .planning_effort = kEffort});
  const swap::Engine& engine = runtime->core()->budget()->engine();
  Outcome result;
  try {
    test.loop([&] { ++result.steps; });
    runtime->synchronize();
  } catch (const OutOfMemory& error) {
    result.shortage = error.what();
  }
  const DriverInfo& info = runtime->core()->context(gpu::device).driver->info();
  result.link = {.out_bytes_per_second = info.link.out_bytes_per_second,
                 .in_bytes_per_second = info.link.in_bytes_per_second,
                 .latency = info.link.latency};
  result.iteration = engine.last_iteration();
  if (asks_for_smallest) result.smallest = engine.smallest();
  result.reserved = runtime->memory_stats(gpu::device).peak_reserved;
  return result;
}

class SmallestBudget : public ::testing::TestWithParam<Case> {
 protected:
  // One that never binds.
  static const Outcome& ample() {
    static std::map<std::string, Outcome> known;
    const auto [found, is_new] = known.try_emplace(GetParam().name);
    if (is_new) found->second = run(GetParam(), kGiB * 60, true);
    return found->second;
  }
  static swap::PlannerOptions options(Bytes budget) {
    return {.budget = budget,
            .methods = swap::Methods::both,
            .link = ample().link,
            .reserve = swap::Planning::kReserve,
            .trials = 60};
  }
};

TEST_P(SmallestBudget, IsNamedByTheRefusalOfAPlanAndIsPlanned) {
  const swap::Iteration& iteration = ample().iteration;
  const Bytes peak = swap::unconstrained(iteration).peak;
  const swap::PlanResult refused = swap::make_plan(iteration, options(Bytes{peak.count / 50}));
  ASSERT_FALSE(refused.plan);
  EXPECT_THAT(refused.reason, HasSubstr("out of memory"));
  ASSERT_TRUE(refused.smallest);
  const swap::PlanResult kept = swap::make_plan(iteration, options(*refused.smallest));
  ASSERT_TRUE(kept.plan);
  EXPECT_LE(kept.plan->cost.peak, *refused.smallest);
}

TEST_P(SmallestBudget, AndEveryLargerOneTrains) {
  ASSERT_EQ(ample().shortage, "");
  const Bytes smallest = ample().smallest;
  const Bytes peak = swap::unconstrained(ample().iteration).peak;
  const Bytes small_pool = swap::Layout::unfilled(ample().iteration);
  EXPECT_LE(static_cast<double>(smallest.count), static_cast<double>(peak.count) / (1 - swap::Planning::kReserve) +
                                                     static_cast<double>(small_pool.count) + 1);
  const double step = full_test() ? 1.02 : brief_test() ? 1.7 : 1.25;
  for (double factor = GetParam().works_from; factor < 2; factor *= step) {
    const Bytes size{static_cast<std::int64_t>(static_cast<double>(smallest.count) * factor)};
    SCOPED_TRACE(fmt::format("{:.3f} of the smallest, {}", factor, to_string(smallest)));
    const Outcome outcome = run(GetParam(), size);
    EXPECT_LE(outcome.reserved, size);
    EXPECT_EQ(outcome.shortage, "");
    EXPECT_EQ(outcome.steps, kSteps);
  }
}

TEST_P(SmallestBudget, PlannedTimeNeverRisesWithTheBudget) {
  const swap::Iteration& iteration = ample().iteration;
  const Bytes peak = swap::unconstrained(iteration).peak;
  std::vector<Bytes> budgets;
  for (const double part : kLadder)
    budgets.push_back(Bytes{static_cast<std::int64_t>(static_cast<double>(peak.count) * part)});
  swap::PlannerOptions planner = options({});
  planner.find_smallest = false;
  const std::vector<swap::PlanResult> plans = swap::plan_ladder(iteration, planner, budgets);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    if (!plans[i].plan) continue;
    ASSERT_TRUE(plans[i - 1].plan) << kLadder[i];
    EXPECT_LE(plans[i - 1].plan->cost.time, plans[i].plan->cost.time) << kLadder[i];
  }
}

std::vector<Case> cases() {
  std::vector<Case> all = {model_case("shufflenet_v2", 128, {.image_size = 64})};
  if (!brief_test()) all.push_back(model_case("resnet18", 96, {.image_size = 64}));
  if (full_test()) {
    all.push_back(model_case("mobilenet_v1", 96, {.image_size = 64}));
    all.push_back(model_case("unet", 2, {.image_size = 128}));
    all.push_back(model_case("bert-base", 4, {.sequence_length = 128}));
  }
  const std::uint64_t programs = full_test() ? 30 : brief_test() ? 2 : 6;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) all.push_back(program_case(seed));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, SmallestBudget, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ferry::test
