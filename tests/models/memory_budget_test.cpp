// Whole models under memory budgets, on simulated GPUs in timing-only mode.
#include <ferry/swap.h>

#include <gtest/gtest.h>

#include <ferry/models.h>
#include <ferry/optim.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

struct BudgetTraining {
  MemoryStats memory;  // of the last steps
  MemoryBudgetStats budget;
  Nanoseconds step{};  // mean of the last steps
};

// ResNet-50 with SGD on a card that has memory enough; `budget`: "" for none.
BudgetTraining train_resnet50(std::int64_t batch, std::string_view budget, int warm_up = 4, int steps = 2) {
  CheckedRuntime runtime({"sim", {.device = "sim:rtx2080ti", .device_memory = kGiB * 64, .values = false}});
  std::optional<MemoryBudget> limit;
  if (!budget.empty()) limit.emplace(budget);
  const auto model = models::make("resnet50");
  optim::Sgd optimizer(*model, {.rate = 0.1});
  Nanoseconds begin{};
  for (int i = 0; i < warm_up + steps; ++i) {
    if (i == warm_up) {
      runtime->synchronize();
      begin = runtime->now();
    }
    model->loss(model->random_batch(batch, 0)).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  runtime->synchronize();
  return {.memory = runtime->memory_stats(gpu::device),
          .budget = limit ? limit->stats() : MemoryBudgetStats{},
          .step = (runtime->now() - begin) / steps};
}

TEST(MemoryBudgetOfModels, ARunThatNeeds16GiBKeepsWithin4) {
  constexpr std::int64_t kBatch = 204;
  const BudgetTraining none = train_resnet50(kBatch, "");
  ASSERT_GE(none.memory.peak_allocated, kGiB * 16);
  const BudgetTraining limited = train_resnet50(kBatch, "4GiB");
  EXPECT_LE(limited.memory.peak_reserved, kGiB * 4);
  EXPECT_GE(limited.budget.planned_iterations, 2);
  // Three quarters of what a step needs are away at some time.
  EXPECT_LE(limited.step, none.step * 5 / 2);
}

}  // namespace
}  // namespace ferry::test
