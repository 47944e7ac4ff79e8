// A call that fails during a step under a budget, of the driver or of the file tier, each in turn: an error, nothing
// leaked, parameters and optimizer state as before when the optimizer had not written, those that it names with their
// new values when it had, and the step can be taken again with the bytes of a run that nothing disturbed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "tests/support/file_faults.h"
#include "tests/swap/budget_run.h"

namespace ferry::test {
namespace {

struct Victim {
  const char* name;
  std::optional<DriverCall> call{};  // empty: of any kind, if file is empty too
  Lasting lasting = Lasting::once;
  std::optional<FileCall> file{};
  bool in_update = false;  // counted from the optimizer's beginning
};

constexpr std::array kVictims = {
    Victim{"any"},
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
    Victim{"any_in_update", std::nullopt, Lasting::once, std::nullopt, true},
    Victim{"launch_in_update", DriverCall::launch, Lasting::once, std::nullopt, true},
    Victim{"file_read", std::nullopt, Lasting::once, FileCall::read},
    Victim{"file_write", std::nullopt, Lasting::once, FileCall::write},
    Victim{"file_write_lasting", std::nullopt, Lasting::until_cleared, FileCall::write},
};

void order(Faults& faults, const Victim& victim, std::int64_t n) {
  if (victim.file) {
    const int error = *victim.file == FileCall::read ? EIO : ENOSPC;
    fail_file(*victim.file, n, error, victim.lasting == Lasting::until_cleared);
  } else if (victim.call) {
    faults.fail(*victim.call, n, victim.lasting);
  } else {
    faults.fail_any(n, victim.lasting);
  }
}

void clear(Faults& faults) {
  faults.clear();
  clear_file_faults();
}

Backend backend() {
  Backend backend = sim_backend();
  backend.options.device_memory = kMiB * 64;
  return backend;
}

struct Case {
  ProgramSpec spec;
  MemoryBudgetOptions budget;
  int warm;          // undisturbed steps
  Results expected;  // of the step after them
};

enum class Phase : std::uint8_t { before_update, update, after_update };

struct Disturbed {
  bool failed = false;   // something did
  Phase phase{};         // when
  bool partial = false;  // the optimizer said that it had begun to write
  std::string problem{};
};

const Result* find(const Results& results, const std::string& name) {
  const auto found = std::ranges::find(results, name, &Result::name);
  return found == results.end() ? nullptr : &*found;
}

// Losses of the steps before are read with those of the last one.
Results without_losses(Results results) {
  std::erase_if(results, [](const Result& result) { return result.name.find("loss") != std::string::npos; });
  return results;
}

// What a failure inside the optimizer left: all that belongs to an updated parameter is new, all else is old.
std::string fault_of_update(const Case& test, const Results& before, const Results& now,
                            const std::vector<std::string>& updated) {
  for (const Result& result : now) {
    const std::string number = result.name.substr(result.name.find_last_of(" .") + 1);
    const bool is_average = result.name.starts_with("average");
    const bool is_new = !is_average && std::ranges::find(updated, "parameter " + number) != updated.end();
    const Result* const expected =
        is_new ? find(test.expected, fmt::format("step {}: {}", test.warm, result.name)) : find(before, result.name);
    if (expected != nullptr && expected->bytes == result.bytes) continue;
    return fmt::format("{} has not its {} bytes after a step that updated {} parameters", result.name,
                       is_new ? "new" : "old", updated.size());
  }
  return "";
}

// The disturbed step; returns its error, empty if there is none.
std::string run_disturbed(TrainingProgram& program, const Case& test, const Victim& victim, std::int64_t n,
                          CheckedRuntime& runtime, std::vector<std::string>& updated, Disturbed& outcome) {
  const std::int64_t failures = runtime.gpu_faults().failures() + file_failures();
  std::string error;
  if (!victim.in_update) order(runtime.gpu_faults(), victim, n);
  try {
    program.step(test.warm);
    runtime->synchronize();
  } catch (const optim::PartialUpdate& thrown) {
    error = thrown.what();
    updated = thrown.updated();
    outcome.partial = true;
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  clear(runtime.gpu_faults());
  outcome.failed = runtime.gpu_faults().failures() + file_failures() > failures;
  return error;
}

// Takes the disturbed step, and again.
void take_step(const Case& test, const Victim& victim, std::int64_t n, CheckedRuntime& runtime, Disturbed& outcome) {
  MemoryBudget budget(*runtime, test.budget);
  Phase phase{};
  bool is_disturbed = false;
  const auto begin_update = [&] {
    phase = Phase::update;
    if (is_disturbed && victim.in_update) order(runtime.gpu_faults(), victim, n);
  };
  TrainingProgram program(test.spec, {.after_block = {}, .before_update = begin_update, .after_update = [&] {
                                        phase = Phase::after_update;
                                      }});
  for (int i = 0; i < test.warm; ++i) program.step(i);
  const TrainingProgram::Snapshot snapshot = program.snapshot();
  const Results before = program.updated_state();
  phase = Phase::before_update;
  runtime->synchronize();
  std::vector<std::string> updated;
  is_disturbed = true;
  const std::string error = run_disturbed(program, test, victim, n, runtime, updated, outcome);
  if (!outcome.failed && !error.empty()) outcome.problem = "an error although nothing failed: " + error;
  if (!outcome.failed) return;
  outcome.phase = phase;
  if (!error.empty()) {
    try {
      runtime->synchronize();
    } catch (const Error&) {
      // What was queued before the failure may report it.
    }
    const Results now = program.updated_state();
    if (phase == Phase::before_update) outcome.problem = first_difference(before, now);
    if (phase == Phase::update && !program.steps_by_hand())
      outcome.problem = fault_of_update(test, before, now, updated);
    if (!outcome.problem.empty()) outcome.problem += " after: " + error;
  } else {
    outcome.problem = first_difference(without_losses(test.expected), without_losses(program.results()));
  }
  is_disturbed = false;
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
  clear(runtime.gpu_faults());
  return outcome;
}

Case make_case(std::uint64_t seed, int warm, bool uses_file) {
  Case test{.spec = random_spec(seed), .budget = {}, .warm = warm, .expected = {}};
  test.spec.steps = warm + 1;
  test.spec.reads_every_step = false;
  CheckedRuntime runtime(backend());
  TrainingProgram program(test.spec);
  for (int i = 0; i < warm; ++i) program.step(i);
  program.restore(program.snapshot());
  program.step(warm);
  test.expected = program.results();
  const Bytes peak = runtime->memory_stats(gpu::device).peak_allocated;
  test.budget.plans = warm > 0;
  if (uses_file) {
    test.budget.methods = EvictionMethods::swap;
    test.budget.host_limit = Bytes{peak.count / 4};
    test.budget.file = std::filesystem::temp_directory_path() / fmt::format("ferry_faults_{}.swap", ::getpid());
  }
  // Of so few bytes much is lost to blocks that lie between others: the first budget that works when nothing fails.
  constexpr std::int64_t kNever = std::int64_t{1} << 40;
  for (int percent = 85; percent <= 150; percent += 5) {
    test.budget.size = std::to_string(peak.count * percent / 100);
    if (disturbed(test, kVictims.front(), kNever).problem.empty()) return test;
  }
  ADD_FAILURE() << "no budget up to one and a half of the peak works: " << to_string(test.spec);
  return test;
}

class BudgetFaults : public ::testing::TestWithParam<Victim> {};

TEST_P(BudgetFaults, AreErrorsThatLeaveNothingBehind) {
  const Victim& victim = GetParam();
  const int programs = full_test() ? 12 : 2;
  // Each failing call in a full test, else each of the first and ever fewer of the later ones.
  std::int64_t failed = 0, before_update = 0, partial = 0;
  for (int i = 0; i < programs; ++i) {
    const std::uint64_t seed = seed_from_environment().value_or(static_cast<std::uint64_t>(i) * 3 + 1);
    const Case test = make_case(seed, i % 3, victim.file.has_value() || i % 4 == 3);
    std::int64_t step = 1;
    for (std::int64_t n = 1; n < 20'000; n += step) {
      SCOPED_TRACE(fmt::format("FERRY_TEST_SEED={}: call {} after {} steps under {} bytes\n{}", seed, n, test.warm,
                               test.budget.size, to_string(test.spec)));
      const Disturbed outcome = disturbed(test, victim, n);
      EXPECT_EQ(outcome.problem, "");
      if (HasFailure()) return;
      if (!outcome.failed) break;
      ++failed;
      before_update += outcome.phase == Phase::before_update;
      partial += outcome.partial;
      if (!full_test()) step = std::max<std::int64_t>(1, n / 3);
    }
  }
  fmt::print("{} failures, {} of them before the update, {} partial updates\n", failed, before_update, partial);
  // Under a budget a step makes no device allocation of its own: all comes from the arena.
  if (victim.call != DriverCall::device_allocation && victim.call != DriverCall::pinned_allocation) {
    EXPECT_GT(failed, 0);
  }
  if (!victim.in_update && (!victim.call || victim.call == DriverCall::launch)) {
    EXPECT_GT(before_update, 0);
  }
  if (victim.in_update && victim.call) {
    EXPECT_GT(partial, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, BudgetFaults, ::testing::ValuesIn(kVictims),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ferry::test
