// Runs of random training programs under memory budgets, and what is asked of each of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <ferry/swap.h>
#include "tests/support/runtime_fixture.h"
#include "tests/swap/training_program.h"

namespace ferry::test {

// How a program runs. Without a size there is no budget.
struct BudgetSetting {
  std::optional<Bytes> size{};
  std::string policy = "hybrid";
  EvictionMethods methods = EvictionMethods::both;
  bool plans = true;
  bool sqrt_sampling = false;
  bool file_tier = false;  // and little pinned memory
  ExecutionOrderOption order{};
};
std::string to_string(const BudgetSetting& setting);

struct BudgetOutcome {
  Results results{};
  std::string shortage{};    // of memory; empty: the program ended
  Bytes shortage_minimum{};  // the smallest budget that it names; 0: none
  int steps = 0;             // that ended
  Bytes peak{};              // allocated
  MemoryBudgetStats stats{};
};

// Runs all steps. Adds failures to the running test when reserved memory exceeds the budget, the ordering checker finds
// something, bytes are left, or another error than OutOfMemory comes. Ends the process with a message when no block
// ends for a minute.
BudgetOutcome run_under_budget(const ProgramSpec& spec, const BudgetSetting& setting);

// Greedily takes away from the program what `fails` does not need. Stops after `trials` of them.
ProgramSpec shrunk(ProgramSpec spec, const std::function<bool(const ProgramSpec&)>& fails, int trials = 300);

// FERRY_TEST_SEED: only the program of this seed.
std::optional<std::uint64_t> seed_from_environment();
// FERRY_TEST_FULL=1: as many programs as a release asks for.
bool full_test();
// FERRY_TEST_BRIEF, as under sanitizers: few cases of what takes long.
bool brief_test();

}  // namespace ferry::test
