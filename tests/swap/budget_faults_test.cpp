// A driver call that fails during a step under a budget, each in turn: an error, nothing leaked, parameters and
// optimizer state as before when the optimizer had not begun, and the step can be taken again with the bytes of a run
// that nothing disturbed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/swap/budget_run.h"

namespace ferry::test {
namespace {

struct Victim {
  const char* name;
  std::optional<DriverCall> call;  // empty: of any kind
  Lasting lasting = Lasting::once;
};

constexpr std::array kVictims = {
    Victim{"any", std::nullopt},
    Victim{"device_allocation", DriverCall::device_allocation},
    Victim{"device_allocation_lasting", DriverCall::device_allocation, Lasting::until_cleared},
    Victim{"pinned_allocation", DriverCall::pinned_allocation},
    Victim{"pinned_allocation_lasting", DriverCall::pinned_allocation, Lasting::until_cleared},
    Victim{"create_event", DriverCall::create_event},
    Victim{"record_event", DriverCall::record_event},
    Victim{"wait_event", DriverCall::wait_event},
    Victim{"query_event", DriverCall::query_event},
    Victim{"synchronize", DriverCall::synchronize},
    Victim{"copy", DriverCall::copy},
    Victim{"launch", DriverCall::launch},
};

void order(Faults& faults, const Victim& victim, std::int64_t n) {
  if (victim.call) {
    faults.fail(*victim.call, n, victim.lasting);
  } else {
    faults.fail_any(n, victim.lasting);
  }
}

Backend backend() {
  Backend backend = sim_backend();
  backend.options.device_memory = kMiB * 64;
  return backend;
}

struct Case {
  ProgramSpec spec;
  Bytes size;  // of the budget
  int warm;    // undisturbed steps
  bool plans;
  Results expected;  // of the step after them
};

struct Disturbed {
  bool failed = false;     // something did
  bool in_update = false;  // after the optimizer had begun
  std::string problem{};
};

// Takes the disturbed step, and again.
void take_step(const Case& test, const Victim& victim, std::int64_t n, CheckedRuntime& runtime, Disturbed& outcome) {
  MemoryBudget budget(*runtime, {.size = std::to_string(test.size.count), .plans = test.plans});
  bool updating = false;
  TrainingProgram program(test.spec, {.after_block = {}, .before_update = [&] { updating = true; }});
  for (int i = 0; i < test.warm; ++i) program.step(i);
  const TrainingProgram::Snapshot snapshot = program.snapshot();
  const Results before = program.updated_state();
  updating = false;
  runtime->synchronize();
  const std::int64_t failures = runtime.gpu_faults().failures();
  order(runtime.gpu_faults(), victim, n);
  std::string error;
  try {
    program.step(test.warm);
    runtime->synchronize();
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  runtime.gpu_faults().clear();
  outcome.failed = runtime.gpu_faults().failures() > failures;
  if (!outcome.failed && !error.empty()) outcome.problem = "an error although nothing failed: " + error;
  if (!outcome.failed) return;
  outcome.in_update = updating;
  if (!error.empty()) {
    try {
      runtime->synchronize();
    } catch (const Error&) {
      // What was queued before the failure may report it.
    }
    if (!updating) outcome.problem = first_difference(before, program.updated_state());
  }
  program.restore(snapshot);
  program.step(test.warm);
  if (outcome.problem.empty()) outcome.problem = first_difference(test.expected, program.results());
}

Disturbed disturbed(const Case& test, const Victim& victim, std::int64_t n) {
  Disturbed outcome;
  CheckedRuntime runtime(backend());
  try {
    take_step(test, victim, n, runtime, outcome);
  } catch (const std::exception& error) {
    outcome.problem = fmt::format("the step after the failure failed: {}", error.what());
  }
  runtime.gpu_faults().clear();
  return outcome;
}

Case make_case(std::uint64_t seed, int warm) {
  Case test{.spec = random_spec(seed), .size = {}, .warm = warm, .plans = warm > 0, .expected = {}};
  test.spec.steps = warm + 1;
  test.spec.reads_every_step = false;
  CheckedRuntime runtime(backend());
  TrainingProgram program(test.spec);
  for (int i = 0; i < warm; ++i) program.step(i);
  program.restore(program.snapshot());
  program.step(warm);
  test.expected = program.results();
  test.size = Bytes{runtime->memory_stats(gpu::device).peak_allocated.count * 7 / 10};
  return test;
}

class BudgetFaults : public ::testing::TestWithParam<Victim> {};

TEST_P(BudgetFaults, AreErrorsThatLeaveNothingBehind) {
  const Victim& victim = GetParam();
  const int programs = full_test() ? 12 : 2;
  // Each failing call in a full test, else each of the first and ever fewer of the later ones.
  std::int64_t failed = 0, before_update = 0;
  for (int i = 0; i < programs; ++i) {
    const std::uint64_t seed = seed_from_environment().value_or(static_cast<std::uint64_t>(i) * 3 + 1);
    const Case test = make_case(seed, i % 3);
    std::int64_t step = 1;
    for (std::int64_t n = 1; n < 20'000; n += step) {
      SCOPED_TRACE(fmt::format("FERRY_TEST_SEED={}: call {} after {} steps under {} bytes\n{}", seed, n, test.warm,
                               test.size.count, to_string(test.spec)));
      const Disturbed outcome = disturbed(test, victim, n);
      EXPECT_EQ(outcome.problem, "");
      if (HasFailure()) return;
      if (!outcome.failed) break;
      ++failed;
      before_update += !outcome.in_update;
      if (!full_test()) step = std::max<std::int64_t>(1, n / 3);
    }
  }
  RecordProperty("failures", static_cast<int>(failed));
  // Under a budget a step makes no device allocation of its own: all comes from the arena.
  if (victim.call != DriverCall::device_allocation && victim.call != DriverCall::pinned_allocation) {
    EXPECT_GT(failed, 0);
  }
  if (!victim.call || victim.call == DriverCall::launch) {
    EXPECT_GT(before_update, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, BudgetFaults, ::testing::ValuesIn(kVictims),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ferry::test
