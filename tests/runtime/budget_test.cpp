// Memory budgets: what is swapped or recomputed has the values it had, and the budget holds.
#include <ferry/swap.h>

#include <unistd.h>

#include <functional>

#include <ferry/ferry.h>
#include "src/runtime/budget.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using Bits = std::vector<std::vector<float>>;

MemoryBudgetOptions options(Bytes size, EvictionMethods methods, std::string policy = "hybrid") {
  MemoryBudgetOptions result{.size = std::to_string(size.count), .methods = methods, .policy = std::move(policy)};
  return result;
}

// Some steps of a small net with a branch, batch norm and dropout.
Bits train(int steps, const std::function<void()>& after_step = {}) {
  set_random_state({3, 0});
  Bits bits;
  std::vector<Tensor> weights;
  for (int i = 0; i < 8; ++i) weights.push_back(normal({64, 64}, 0, 0.2).set_requires_grad());
  Tensor gamma = ones({64}).set_requires_grad(), beta = zeros({64}).set_requires_grad();
  Tensor mean_of = zeros({64}), variance = ones({64});
  std::vector<Tensor> parameters = weights;
  parameters.push_back(gamma);
  parameters.push_back(beta);
  optim::Adam optimizer(parameters, {.rate = 0.01});
  for (int step = 0; step < steps; ++step) {
    const Tensor x = normal({256, 64});
    Tensor y = x;
    for (const Tensor& weight : weights) {
      const Tensor z = relu(batch_norm(matmul(y, weight), gamma, beta, mean_of, variance, {.training = true}));
      y = y + dropout(z, 0.3);
    }
    const Tensor loss = mean(square(y));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    bits.push_back(loss.to_vector<float>());
    if (after_step) after_step();
  }
  for (const Tensor& parameter : parameters) bits.push_back(parameter.to_vector<float>());
  bits.push_back(mean_of.to_vector<float>());
  bits.push_back(variance.to_vector<float>());
  return bits;
}

struct Reference {
  Bits bits;
  Bytes peak;
};
Reference unlimited(int steps) {
  CheckedRuntime runtime{sim_backend()};
  Bits bits = train(steps);
  return {std::move(bits), runtime->memory_stats(gpu::device).peak_allocated};
}

class BudgetOf : public ::testing::TestWithParam<std::tuple<std::string, EvictionMethods, int>> {};

TEST_P(BudgetOf, GivesTheSameResults) {
  const auto& [policy, methods, percent] = GetParam();
  const Reference reference = unlimited(5);
  CheckedRuntime runtime{adversarial_backend(11)};
  const Bytes size{reference.peak.count * percent / 100};
  MemoryBudgetOptions chosen = options(size, methods, policy);
  chosen.plans = policy == "hybrid";  // plans make the policies alike
  MemoryBudget budget(chosen);
  const Bits bits = train(5, [&] { EXPECT_LE(runtime->memory_stats(gpu::device).reserved, size); });
  EXPECT_EQ(bits, reference.bits);
  EXPECT_GT(budget.stats().evictions, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, BudgetOf,
    ::testing::Combine(::testing::Values("dtr", "dtr_local", "msps", "lru", "largest", "random", "hybrid"),
                       ::testing::Values(EvictionMethods::recompute, EvictionMethods::swap, EvictionMethods::both),
                       ::testing::Values(60, 85)));

TEST(Budget, PlansIterationsThatRepeat) {
  const Reference reference = unlimited(8);
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(Bytes{reference.peak.count * 6 / 10});
  const Bits bits = train(8);
  EXPECT_EQ(bits, reference.bits);
  EXPECT_GE(budget.stats().planned_iterations, 4);
  EXPECT_NE(budget.explain().find("budget"), std::string::npos);
}

// What the message of a budget that is too small for one call names.
TEST(Budget, ACallThatReadsATensorTwiceNeedsItOnce) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(kMiB * 64);
  const Tensor x = zeros({1024, 1024}), y = x + x;
  EXPECT_EQ(runtime->core()->budget()->engine().smallest(), kMiB * 8);
}

TEST(Budget, ASavedPlanIsUsedAgain) {
  const Reference reference = unlimited(6);
  const Bytes size{reference.peak.count * 6 / 10};
  std::string plan;
  {
    CheckedRuntime runtime{sim_backend()};
    MemoryBudget budget(size);
    EXPECT_EQ(budget.save_plan(), "");
    train(6);
    plan = budget.save_plan();
    EXPECT_EQ(budget.stats().plans, 1);
  }
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(size);
  EXPECT_THROW(budget.load_plan("{}"), ParseError);
  budget.load_plan(plan);
  EXPECT_EQ(train(6), reference.bits);
  EXPECT_EQ(budget.stats().plans, 0);
  EXPECT_GE(budget.stats().planned_iterations, 3);
}

TEST(Budget, AllocatesNothingFromTheThirdIterationOn) {
  const Reference reference = unlimited(1);
  for (const int percent : {60, 64, 68, 75, 83, 92}) {
    SCOPED_TRACE(percent);
    CheckedRuntime runtime{sim_backend()};
    MemoryBudget budget(Bytes{reference.peak.count * percent / 100});
    std::vector<std::int64_t> device;
    std::vector<Bytes> pinned;
    train(8, [&] {
      const MemoryStats stats = runtime->memory_stats(gpu::device);
      device.push_back(stats.driver_allocations);
      pinned.push_back(stats.pinned_reserved);
    });
    EXPECT_EQ(device[2], device[7]);
    EXPECT_EQ(pinned[2], pinned[7]);
  }
}

TEST(Budget, WalksALongWayBackWithoutRecursion) {
  constexpr int kLength = 100'000;
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(options(kMiB * 4, EvictionMethods::recompute, "lru"));
  std::vector<Tensor> chain = {ones({16})};
  for (int i = 0; i < kLength; ++i) chain.push_back(add(chain.back(), 1));
  for (const int i : {kLength / 2, 7, kLength})
    EXPECT_EQ(chain[static_cast<std::size_t>(i)].to_vector<float>()[3], i + 1) << i;
}

TEST(Budget, AValueThatTheProgramLetGoOfIsComputedForOthers) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(options(kMiB * 4, EvictionMethods::recompute, "lru"));
  const auto make = [](float value) {
    const Tensor base = full({kMiB.count / 4}, value);
    return add(mul(base, 2), 1);
  };
  std::vector<Tensor> kept;
  for (int i = 0; i < 8; ++i) kept.push_back(make(static_cast<float>(i)));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(kept[static_cast<std::size_t>(i)].to_vector<float>()[5], 2 * i + 1);
  EXPECT_GT(budget.stats().recomputations, 8);
}

TEST(Budget, WritesInPlaceDoNotReachWhatWasComputedBefore) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(options(kMiB * 4, EvictionMethods::both, "lru"));
  Tensor x = full({kMiB.count / 4}, 3);
  const Tensor y = mul(x, 2);
  x.add_(full({1}, 10));
  std::vector<Tensor> others;
  for (int i = 0; i < 6; ++i) others.push_back(full({kMiB.count / 4}, i));
  EXPECT_EQ(y.to_vector<float>()[0], 6);
  EXPECT_EQ(x.to_vector<float>()[0], 13);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(others[static_cast<std::size_t>(i)].to_vector<float>()[9], i);
}

TEST(Budget, TheCpuReadsASwappedTensorWhereItIs) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(options(kMiB * 3, EvictionMethods::swap, "lru"));
  const Tensor a = full({kMiB.count / 4}, 1), b = full({kMiB.count / 4}, 2), c = full({kMiB.count / 4}, 3);
  const Tensor d = full({kMiB.count / 4}, 4);
  ASSERT_GT(budget.stats().bytes_out.count, 0);
  const Bytes in = budget.stats().bytes_in;
  const DeviceGuard<cpu> guard;
  EXPECT_EQ(add(a, 1).to_vector<float>()[0], 2);
  EXPECT_EQ(budget.stats().bytes_in, in);
  EXPECT_EQ((b + c + d).to_vector<float>()[0], 9);
}

TEST(Budget, ACleanCopyIsNotWrittenAgain) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(options(kMiB * 3, EvictionMethods::swap, "lru"));
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(full({kMiB.count / 4}, i));
  for (int round = 0; round < 3; ++round)
    for (const Tensor& tensor : tensors) sum(tensor);
  const MemoryBudgetStats stats = budget.stats();
  EXPECT_LE(stats.bytes_out, kMiB * 4);
  EXPECT_GE(stats.bytes_in, kMiB * 6);
}

// Every second block is free, and none is large enough.
TEST(Budget, FreeMemoryInSeveralPlacesIsMovedTogether) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    CheckedRuntime runtime{adversarial_backend(seed)};
    MemoryBudget budget(options(kMiB * 20, EvictionMethods::swap, "lru"));
    constexpr std::int64_t kElements = kMiB.count / 2;
    std::vector<Tensor> kept, freed;
    for (int i = 0; i < 8; ++i) (i % 2 == 0 ? freed : kept).push_back(add(arange(0, kElements, 1, DType::f32), i));
    freed.clear();
    const Tensor large = full({3 * kElements}, 7);
    const MemoryBudgetStats stats = budget.stats();
    EXPECT_EQ(stats.evictions, 0);
    EXPECT_EQ(stats.bytes_out, Bytes{});
    EXPECT_GE(stats.bytes_moved, kMiB * 2);
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> values = kept[static_cast<std::size_t>(i)].to_vector<float>();
      for (std::int64_t at = 0; at < kElements; at += 1001) {
        ASSERT_EQ(values[static_cast<std::size_t>(at)], static_cast<float>(at + 2 * i + 1)) << i;
      }
    }
    EXPECT_EQ(large.to_vector<float>()[5], 7);
  }
}

TEST(Budget, WhatWasGivenUpIsThereAfterItsEnd) {
  CheckedRuntime runtime{sim_backend()};
  std::vector<Tensor> tensors;
  {
    MemoryBudget budget(options(kMiB * 3, EvictionMethods::both, "lru"));
    for (int i = 0; i < 8; ++i) tensors.push_back(add(full({kMiB.count / 4}, i), 1));
    EXPECT_GT(budget.stats().evictions, 0);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[1], i + 1);
  const Tensor large = zeros({kMiB.count * 8});
}

TEST(Budget, SaysWhatWouldBeEnough) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget(kMiB * 3);
  const Tensor a = zeros({kMiB.count / 4}), b = zeros({kMiB.count / 4});
  const std::string message = message_of<OutOfMemory>([&] { matmul(zeros({512, 1024}), zeros({1024, 1024})); });
  EXPECT_NE(message.find("budget"), std::string::npos) << message;
  EXPECT_EQ(add(a, b).to_vector<float>()[0], 0);
}

TEST(Budget, RefusesWhatMakesNoSense) {
  CheckedRuntime runtime{sim_backend()};
  for (const char* size : {"0", "-1", "5 apples", "0%", "101%", "x%"})
    EXPECT_THROW(MemoryBudget{std::string_view(size)}, InvalidArgument) << size;
  EXPECT_THROW(MemoryBudget({.size = "1GiB", .policy = "none"}), InvalidArgument);
  EXPECT_THROW(MemoryBudget({.size = "1GiB", .device = cpu::device}), InvalidArgument);
  EXPECT_THROW(MemoryBudget({.size = "1GiB", .planning_effort = -1}), InvalidArgument);
  const MemoryBudget budget("50%");
  EXPECT_THROW(MemoryBudget{"1GiB"}, InvalidArgument);
  EXPECT_EQ(budget.stats().budget, kMiB * 256);
}

TEST(Budget, TheEnvironmentGivesOne) {
  setenv("FERRY_MEMORY_BUDGET", "3MiB", 1);
  CheckedRuntime runtime{sim_backend()};
  unsetenv("FERRY_MEMORY_BUDGET");
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(full({kMiB.count / 4}, i));
  EXPECT_LE(runtime->memory_stats(gpu::device).reserved, kMiB * 3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[1], i);
  const MemoryBudget budget("16MiB");
  EXPECT_EQ(budget.stats().budget, kMiB * 16);
}

TEST(Budget, AWrongTextInTheEnvironmentIsNamed) {
  setenv("FERRY_MEMORY_BUDGET", "much", 1);
  const std::string message = message_of<InvalidArgument>([] { const Runtime runtime(sim_backend().options); });
  unsetenv("FERRY_MEMORY_BUDGET");
  EXPECT_NE(message.find("FERRY_MEMORY_BUDGET=much"), std::string::npos) << message;
}

TEST(Budget, AWrongPlanningEffortInTheEnvironmentIsNamed) {
  CheckedRuntime runtime{sim_backend()};
  const char* const before = std::getenv("FERRY_PLANNING_EFFORT");
  const std::string kept = before == nullptr ? "" : before;
  for (const char* text : {"much", "0", "-1", "1e999", "0.5x"}) {
    setenv("FERRY_PLANNING_EFFORT", text, 1);
    const std::string message = message_of<InvalidArgument>([] { const MemoryBudget budget("1GiB"); });
    EXPECT_NE(message.find(fmt::format("FERRY_PLANNING_EFFORT: '{}'", text)), std::string::npos) << message;
  }
  setenv("FERRY_PLANNING_EFFORT", kept.c_str(), 1);
}

TEST(Budget, WithoutASizeOnlyTheDevicesOwnMemoryLimits) {
  Backend small = sim_backend();
  small.options.device_memory = kMiB * 24;
  CheckedRuntime runtime{small};
  MemoryBudget budget(MemoryBudgetOptions{.policy = "lru"});
  std::vector<Tensor> tensors;
  for (int i = 0; i < 48; ++i) tensors.push_back(full({kMiB.count / 4}, i));
  for (int i = 0; i < 48; ++i) EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[1], i);
  EXPECT_GT(budget.stats().evictions, 0);
}

TEST(Budget, HostMemoryIsLimitedToo) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudgetOptions few = options(kMiB * 3, EvictionMethods::swap, "lru");
  few.host_limit = kMiB * 2;
  MemoryBudget budget(few);
  std::vector<Tensor> tensors;
  const std::string message = message_of<OutOfMemory>([&] {
    for (int i = 0; i < 8; ++i) tensors.push_back(full({kMiB.count / 4}, i));
  });
  EXPECT_NE(message.find("host"), std::string::npos) << message;
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(tensors[i].to_vector<float>()[1], static_cast<float>(i));
}

TEST(Budget, AFileTakesWhatHostMemoryDoesNot) {
  const std::string path = ::testing::TempDir() + "budget_spill";
  CheckedRuntime runtime{sim_backend()};
  MemoryBudgetOptions few = options(kMiB * 3, EvictionMethods::swap, "lru");
  few.host_limit = kMiB * 2;
  few.file = path;
  {
    MemoryBudget budget(few);
    std::vector<Tensor> tensors;
    for (int i = 0; i < 12; ++i) tensors.push_back(full({kMiB.count / 4}, i));
    EXPECT_LE(runtime->memory_stats(gpu::device).pinned_allocated, kMiB * 3);
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(sum(tensors[static_cast<std::size_t>(i)]).item(), i * double(kMiB.count / 4));
    tensors[3].add_(full({1}, 1));
    for (const int i : {0, 3, 11})
      EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[1], i == 3 ? 4 : i);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  few.file = "/nowhere/at/all";
  EXPECT_THROW(MemoryBudget{few}, InvalidArgument);
}

}  // namespace
}  // namespace ferry::test
