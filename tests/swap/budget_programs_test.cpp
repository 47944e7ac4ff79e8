// Same results: random training programs under memory budgets, from the smallest that works to what they need, under
// each policy, with either method, with and without plans, in adversarial orders: equal bytes, no finding of the
// ordering checker, nothing left behind, no more reserved than the budget, and every step ends.
//
// A failure prints its program made smaller. FERRY_TEST_SEED=N repeats program N with all settings; FERRY_TEST_FULL=1
// runs more than a thousand programs.
#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "tests/support/generators.h"
#include "tests/swap/budget_run.h"
#include "tests/swap/training_blocks.h"

namespace ferry::test {
namespace {

constexpr std::array<const char*, 7> kPolicies = {"dtr", "dtr_local", "msps", "lru", "largest", "random", "hybrid"};
// Budgets between the smallest that works, 0, and the peak, 1.
constexpr std::array kSteps = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};

constexpr std::uint64_t kFullPrograms = 1'000;
constexpr std::chrono::seconds kQuickTime{40};

// Of all programs of a test.
struct Tally {
  std::int64_t programs = 0, runs = 0, ended = 0, evictions = 0, recomputations = 0, planned = 0, above_peak = 0;
  Bytes swapped{};

  void add(const BudgetOutcome& outcome) {
    ++runs;
    ended += outcome.shortage.empty();
    evictions += outcome.stats.evictions;
    recomputations += outcome.stats.recomputations;
    planned += outcome.stats.planned_iterations;
    swapped += outcome.stats.bytes_out;
  }
};

// Why a run under a budget is wrong; "" when it is right. One that ends early has ended with OutOfMemory and without
// wrong values until then.
std::string fault_of(const BudgetOutcome& reference, const BudgetOutcome& outcome, bool must_end) {
  if (!outcome.shortage.empty()) {
    if (must_end) return outcome.shortage;
    Results known(reference.results.begin(),
                  reference.results.begin() +
                      static_cast<std::ptrdiff_t>(std::min(reference.results.size(), outcome.results.size())));
    return first_difference(known, outcome.results);
  }
  return first_difference(reference.results, outcome.results);
}

// The smallest budget under which the program ends, by halving. What a call has in use may lie between two holes, so
// that it can be more than the peak without one.
Bytes smallest_budget(const ProgramSpec& spec, Bytes peak, BudgetSetting setting, Tally& tally) {
  const auto ends = [&](std::int64_t size) {
    setting.size = Bytes{size};
    const BudgetOutcome outcome = run_under_budget(spec, setting);
    tally.add(outcome);
    return outcome.shortage.empty();
  };
  std::int64_t too_small = 0, enough = peak.count;
  while (!ends(enough)) {
    too_small = enough;
    enough += peak.count / 4;
    if (enough > peak.count * 2) {
      ADD_FAILURE() << "no budget up to twice the peak of " << peak.count << " bytes works\n" << to_string(spec);
      break;
    }
  }
  while (enough - too_small > std::max<std::int64_t>(peak.count / 32, 4096)) {
    const std::int64_t middle = (too_small + enough) / 2;
    (ends(middle) ? enough : too_small) = middle;
  }
  tally.above_peak += enough > peak.count;
  return Bytes{enough};
}

// One program's settings follow from its seed, all of them occur.
BudgetSetting setting_for(std::uint64_t seed, std::size_t budget, std::size_t policy) {
  Random random(seed * 64 + budget * 8 + policy);
  BudgetSetting setting{.policy = kPolicies[policy]};
  setting.methods = static_cast<EvictionMethods>(random() % 3);
  setting.plans = random() % 3 == 0;
  setting.sqrt_sampling = random() % 4 == 0;
  setting.file_tier = setting.methods != EvictionMethods::recompute && random() % 5 == 0;
  if (random() % 2 == 0) setting.order = {.adversarial = true, .seed = random()};
  return setting;
}

// Runs the failing setting on ever smaller programs, and says how to repeat it.
void report(const ProgramSpec& spec, const BudgetSetting& setting, const BudgetOutcome& reference,
            const std::string& fault) {
  const double share = static_cast<double>(setting.size->count) / static_cast<double>(reference.peak.count);
  BudgetSetting at = setting;
  const auto still_fails = [&](const ProgramSpec& smaller) {
    ::testing::TestPartResultArray ignored;
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &ignored);
    const BudgetOutcome expected = run_under_budget(smaller, {});
    at.size = Bytes{static_cast<std::int64_t>(share * static_cast<double>(expected.peak.count))};
    return ignored.size() > 0 || !fault_of(expected, run_under_budget(smaller, at), false).empty() ||
           ignored.size() > 0;
  };
  const ProgramSpec smaller = shrunk(spec, still_fails);
  ADD_FAILURE() << fault << "\nunder " << to_string(setting) << " of a peak of " << reference.peak.count
                << " bytes\nrepeat with FERRY_TEST_SEED=" << spec.seed << "\n"
                << to_string(spec) << "\nfails also as\n"
                << to_string(smaller);
}

void check(const ProgramSpec& spec, const BudgetOutcome& reference, const BudgetSetting& setting, bool must_end,
           Tally& tally) {
  const auto failures = [] {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before = failures();
  const BudgetOutcome outcome = run_under_budget(spec, setting);
  tally.add(outcome);
  const std::string fault = fault_of(reference, outcome, must_end);
  if (!fault.empty() || failures() != before) report(spec, setting, reference, fault);
}

// `every_policy`: all of them at each budget, instead of one.
void check_program(std::uint64_t seed, bool every_policy, Tally& tally) {
  const ProgramSpec spec = random_spec(seed);
  SCOPED_TRACE(fmt::format("FERRY_TEST_SEED={}", seed));
  const BudgetOutcome reference = run_under_budget(spec, {});
  ASSERT_EQ(reference.shortage, "");
  const Bytes smallest = smallest_budget(spec, reference.peak, {.plans = false}, tally);
  ++tally.programs;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const double between = kSteps[i] * static_cast<double>(std::max(reference.peak - smallest, Bytes{}).count);
    for (std::size_t policy = 0; policy < kPolicies.size(); ++policy) {
      if (!every_policy && policy != (seed + i) % kPolicies.size()) continue;
      BudgetSetting setting = i == 0 && !every_policy ? BudgetSetting{.plans = false} : setting_for(seed, i, policy);
      setting.size = smallest + Bytes{static_cast<std::int64_t>(between)};
      check(spec, reference, setting, i == 0 && !every_policy, tally);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(BudgetPrograms, GiveTheBytesOfUnlimitedMemory) {
  Tally tally;
  if (const auto seed = seed_from_environment()) {
    check_program(*seed, true, tally);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t seed = 0;
  for (; full_test() ? seed < kFullPrograms : std::chrono::steady_clock::now() - begin < kQuickTime; ++seed) {
    check_program(seed, seed % 50 == 7, tally);
    if (HasFailure()) return;
    if (seed % 50 == 49) fmt::print("seeds 0 to {}: {} runs\n", seed, tally.runs), std::fflush(stdout);
  }
  fmt::print(
      "{} programs, {} runs under a budget, {} of them ended; {} evictions, {} recomputed ops, {} bytes swapped "
      "out, {} planned iterations; {} programs need more than their peak\n",
      tally.programs, tally.runs, tally.ended, tally.evictions, tally.recomputations, tally.swapped.count,
      tally.planned, tally.above_peak);
  // What was asked for happened: budgets bound, ops ran again, copies were made, plans were followed.
  EXPECT_GT(tally.ended * 2, tally.runs);
  EXPECT_LE(tally.above_peak * 10, tally.programs);
  EXPECT_GT(tally.evictions, tally.programs * 10);
  EXPECT_GT(tally.recomputations, tally.programs);
  EXPECT_GT(tally.swapped.count, tally.programs * 1000);
}

// Whose values in the file lost their storage while others had to be computed from them.
TEST(BudgetPrograms, ThatLoseWhatIsInTheFile) {
  Tally tally;
  for (const std::uint64_t seed : {670u, 671u}) check_program(seed, false, tally);
}

// Programs that repeat are planned, and their plans followed, with the same bytes.
TEST(BudgetPrograms, ThatRepeatAreRunByTheirPlans) {
  for (const std::uint64_t seed : {11u, 12u, 13u}) {
    ProgramSpec spec = random_spec(seed);
    spec.repeats = true;
    spec.batch_changes = spec.late_zero = spec.reads_every_step = false;
    spec.steps = 6;
    std::erase_if(spec.blocks, [](const BlockSpec& block) {
      return block_kinds()[block.kind].name == "steered_by_a_value" ||
             block_kinds()[block.kind].name == "shaped_by_tensors";
    });
    for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
      for (std::size_t* input : {&spec.blocks[i].a, &spec.blocks[i].b})
        *input = std::min(*input, ProgramSpec::kInputs + i - 1);
    }
    SCOPED_TRACE(to_string(spec));
    const BudgetOutcome reference = run_under_budget(spec, {});
    const BudgetOutcome outcome = run_under_budget(spec, {.size = Bytes{reference.peak.count * 8 / 10}});
    EXPECT_EQ(fault_of(reference, outcome, true), "");
    // The first iteration records, and the second makes what later ones find.
    EXPECT_GE(outcome.stats.planned_iterations, 3);
  }
}

}  // namespace
}  // namespace ferry::test
