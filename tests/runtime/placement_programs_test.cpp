// Where ops run and when queued work is carried out never shows in results: simulated and host kernels are the same,
// so everything is compared bit for bit.
#include <gtest/gtest.h>

#include <ferry/device_guard.h>
#include "tests/runtime/training_step.h"
#include "tests/support/generators_program.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using Results = std::vector<std::vector<float>>;

// The program's value and its leaves' gradients, with guards around steps and the devices of leaves from `guards`.
Results results_of(const RandomProgram& program, const Backend& backend, Random* guards) {
  CheckedRuntime runtime(backend);
  const auto choice = [&] { return guards == nullptr ? "" : std::array{"cpu", "gpu", ""}[(*guards)() % 3]; };
  std::vector<Tensor> leaves;
  for (const Array& values : program.leaves(DType::f32)) {
    const DeviceGuard guard{choice()};
    Tensor leaf = to_tensor(values, DType::f32);
    if (guards != nullptr && (*guards)() % 2 == 0) leaf = leaf.to(gpu::device);
    leaves.push_back(leaf.set_requires_grad());
  }
  const Tensor loss = program.run(leaves, [&](std::size_t, const std::function<void()>& body) {
    const DeviceGuard guard{choice()};
    body();
  });
  {
    const DeviceGuard guard{choice()};
    loss.backward();
  }
  Results results{loss.to_vector<float>()};
  for (const Tensor& leaf : leaves) {
    results.push_back(leaf.grad().to_vector<float>());
  }
  return results;
}

class PlacementPrograms : public ::testing::TestWithParam<int> {};

TEST_P(PlacementPrograms, GiveTheSameBitsOnEveryPlacement) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * 1000 + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program(seed, 10 + seed % 30);
    const Results expected = results_of(program, cpu_backend(), nullptr);
    EXPECT_EQ(results_of(program, sim_backend(), nullptr), expected);
    Random guards(seed);
    EXPECT_EQ(results_of(program, sim_backend(), &guards), expected);
    EXPECT_EQ(results_of(program, adversarial_backend(seed), &guards), expected);
    EXPECT_EQ(results_of(program, synchronous_backend(), &guards), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlacementPrograms, ::testing::Range(1, 6));

struct Trained {
  std::vector<double> losses;
  Results parameters, buffers;
  bool operator==(const Trained&) const = default;
};

Trained trained(const Backend& backend, int steps = 3) {
  CheckedRuntime runtime(backend);
  TrainingStep model;
  Trained result;
  for (int i = 0; i < steps; ++i) result.losses.push_back(model.step(i));
  result.parameters = model.parameter_values();
  result.buffers = model.buffer_values();
  return result;
}

TEST(Orders, TrainingIsBitEqualInEveryLegalOrder) {
  const Trained expected = trained(sim_backend());
  EXPECT_LT(expected.losses[2], 10);
  EXPECT_EQ(trained(cpu_backend()), expected);
  EXPECT_EQ(trained(synchronous_backend()), expected);
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_EQ(trained(adversarial_backend(seed)), expected) << seed;
}

TEST(Orders, VirtualTimesRepeat) {
  const auto end = [] {
    CheckedRuntime runtime(sim_backend());
    TrainingStep model;
    for (int i = 0; i < 2; ++i) model.step(i);
    runtime->synchronize();
    return runtime->now();
  };
  const Nanoseconds first = end();
  EXPECT_GT(first, Nanoseconds{});
  EXPECT_EQ(end(), first);
}

}  // namespace
}  // namespace ferry::test
