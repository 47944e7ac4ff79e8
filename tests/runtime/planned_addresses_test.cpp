// Plans with addresses: storages too large for the small pool lie where the plan has them, with the values they had, in
// any legal order of the device's work.
#include <ferry/swap.h>

#include <functional>

#include <ferry/ferry.h>
#include "src/runtime/budget.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using Bits = std::vector<std::vector<float>>;

constexpr std::int64_t kRows = 1024, kWidth = 1024;  // 4 MiB

struct WideNet {
  std::vector<Tensor> weights;
  optim::Sgd optimizer;

  static std::vector<Tensor> make_weights() {
    std::vector<Tensor> weights;
    for (int i = 0; i < 4; ++i) weights.push_back(normal({kWidth, kWidth / 2}, 0, 0.03).set_requires_grad());
    return weights;
  }
  explicit WideNet(std::vector<Tensor> made = make_weights())
      : weights(std::move(made)), optimizer(weights, {.rate = 1e-3, .momentum = 0.9}) {}

  Tensor step() {
    const Tensor x = normal({kRows, kWidth}).to(cpu::device);
    Tensor y = x;
    for (int layer = 0; layer < 8; ++layer) {
      const Tensor& weight = weights[static_cast<std::size_t>(layer % 4)];
      const Tensor z = relu(matmul(y, weight));
      y = y * 0.5 + concat({z, z * 0.5}, 1);
      if (layer % 3 == 0) y = dropout(y, 0.1);
    }
    const Tensor loss = mean(square(y));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss.detach();
  }
  Bits bits() const {
    Bits result;
    for (const Tensor& weight : weights) result.push_back(weight.to_vector<float>());
    return result;
  }
};

swap::EngineStats engine_stats(CheckedRuntime& runtime) { return runtime->core()->budget()->engine().stats(); }

Bits train_wide(int steps, const std::function<void(int)>& after_step = {}) {
  set_random_state({3, 0});
  WideNet net;
  Bits losses;
  for (int i = 0; i < steps; ++i) {
    losses.push_back(net.step().to_vector<float>());
    if (after_step) after_step(i);
  }
  Bits result = net.bits();
  result.insert(result.end(), losses.begin(), losses.end());
  return result;
}

struct WideReference {
  Bits bits;
  Bytes peak;
};
const WideReference& unlimited_wide(int steps) {
  static std::map<int, WideReference> known;
  WideReference& reference = known[steps];
  if (reference.bits.empty()) {
    CheckedRuntime runtime{sim_backend()};
    reference.bits = train_wide(steps);
    reference.peak = runtime->memory_stats(gpu::device).peak_allocated;
  }
  return reference;
}

class PlannedAddresses : public ::testing::TestWithParam<std::tuple<EvictionMethods, int>> {};

TEST_P(PlannedAddresses, HoldTheValuesOfUnlimitedMemory) {
  constexpr int kSteps = 7;
  const auto& [methods, percent] = GetParam();
  const WideReference& reference = unlimited_wide(kSteps);
  CheckedRuntime runtime{adversarial_backend(static_cast<unsigned>(percent))};
  const Bytes size{reference.peak.count * percent / 100};
  MemoryBudget budget(MemoryBudgetOptions{.size = std::to_string(size.count), .methods = methods});
  swap::EngineStats before, after;
  const Bits bits = train_wide(kSteps, [&](int step) {
    EXPECT_LE(runtime->memory_stats(gpu::device).reserved, size);
    (step == kSteps - 2 ? before : after) = engine_stats(runtime);
  });
  EXPECT_EQ(bits, reference.bits);
  EXPECT_GE(budget.stats().planned_iterations, 3);
  EXPECT_GT(after.placed, before.placed + 10) << "in the last iteration";
  EXPECT_EQ(after.displaced, before.displaced);
  EXPECT_EQ(after.bytes_moved, before.bytes_moved);
}

INSTANTIATE_TEST_SUITE_P(Budgets, PlannedAddresses,
                         ::testing::Combine(::testing::Values(EvictionMethods::swap, EvictionMethods::both),
                                            ::testing::Values(75, 90)));

}  // namespace
}  // namespace ferry::test
