// Small instances of every model: f32 against f64, and any half of the layers on the CPU against all on the GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include <ferry/no_grad.h>
#include <ferry/optim.h>
#include "tests/models/each_model.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using models::Batch;
using models::Model;

constexpr std::int64_t kSamples = 3;
constexpr std::uint64_t kSeed = 11;

std::shared_ptr<Model> small(const models::Entry& entry, DType dtype = DType::f32) {
  return entry.make({.dtype = dtype, .small = true});
}

void copy_state(const Model& from, const Model& to) {
  const NoGrad no_grad;
  for (const auto members : {&Model::parameters, &Model::buffers}) {
    const auto source = (from.*members)(), target = (to.*members)();
    ASSERT_EQ(source.size(), target.size());
    for (std::size_t i = 0; i < source.size(); ++i) Tensor(target[i].tensor).copy_(source[i].tensor);
  }
}

Batch converted(Batch batch, DType dtype) {
  for (Tensor& input : batch.inputs) {
    if (is_floating(input.dtype())) input = input.to(dtype);
  }
  if (is_floating(batch.targets.dtype())) batch.targets = batch.targets.to(dtype);
  return batch;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::vector<double> values_of(const Tensor& tensor) { return tensor.to(DType::f64).to_vector<double>(); }

class Precision : public EachModel {
 protected:
  // The largest error of a gradient in f32, relative to 1e-4 of it, and its parameter.
  struct Worst {
    double ratio = 0;
    std::string name;
  };

  static Worst worst_gradient(const Model& single, const Model& exact) {
    const auto parameters = single.parameters(), exact_parameters = exact.parameters();
    double largest = 0;
    for (const auto& each : exact_parameters) {
      if (!each.tensor.has_grad()) return {std::numeric_limits<double>::infinity(), each.name};
      largest = std::max(largest, norm(values_of(each.tensor.grad())));
    }
    Worst worst;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> expected = values_of(exact_parameters[i].tensor.grad());
      std::vector<double> error = values_of(parameters[i].tensor.grad());
      for (std::size_t k = 0; k < error.size(); ++k) error[k] -= expected[k];
      // A gradient that cancels out to nothing is compared with the others'.
      const double ratio = norm(error) / (1e-4 * std::max(norm(expected), 1e-2 * largest));
      if (ratio > worst.ratio) worst = {ratio, parameters[i].name};
    }
    return worst;
  }
};

// Where an activation lies within rounding of the kink of relu, f32 and f64 take different sides and their gradients
// differ: one batch of several must be free of that. A wrong gradient is wrong for each.
TEST_P(Precision, LossAndGradientsInF32AreThoseInF64) {
  CheckedRuntime runtime(cpu_backend());
  const auto single = small(GetParam()), exact = small(GetParam(), DType::f64);
  copy_state(*single, *exact);
  Worst best{std::numeric_limits<double>::infinity(), {}};
  for (std::uint64_t seed = kSeed; seed < kSeed + 5 && best.ratio > 1; ++seed) {
    const Batch batch = single->random_batch(kSamples, seed);
    runtime->manual_seed(seed);  // of dropout
    const Tensor loss = single->loss(batch);
    runtime->manual_seed(seed);
    const Tensor exact_loss = exact->loss(converted(batch, DType::f64));
    EXPECT_NEAR(loss.item(), exact_loss.item(), 1e-4 * std::abs(exact_loss.item()));
    loss.backward();
    exact_loss.backward();
    const Worst worst = worst_gradient(*single, *exact);
    if (worst.ratio < best.ratio) best = worst;
    single->zero_grad();
    exact->zero_grad();
  }
  EXPECT_LE(best.ratio, 1) << "in the gradient of " << best.name;
}

INSTANTIATE_TEST_SUITE_P(Models, Precision, every_model(), model_name);

class Checkpoints : public EachModel {};

// Bit for bit, running statistics included.
TEST_P(Checkpoints, GradientsAreThoseWithoutCheckpoints) {
  CheckedRuntime runtime(cpu_backend());
  const auto plain = small(GetParam());
  const auto segmented = GetParam().make({.small = true, .checkpoint_segments = 3});
  copy_state(*plain, *segmented);
  const Batch batch = plain->random_batch(kSamples, kSeed);
  for (const auto& model : {plain, segmented}) {
    runtime->manual_seed(kSeed);
    model->loss(batch).backward();
  }
  const auto expected = plain->parameters(), actual = segmented->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(values_of(actual[i].tensor.grad()), values_of(expected[i].tensor.grad())) << expected[i].name;
  }
  const auto statistics = plain->buffers(), segmented_statistics = segmented->buffers();
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    EXPECT_EQ(values_of(segmented_statistics[i].tensor), values_of(statistics[i].tensor)) << statistics[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Checkpoints, every_model(), model_name);

class Placement : public EachModel {};

// The losses before and after one step of SGD.
std::pair<double, double> train(Runtime& runtime, Model& model, const Batch& batch) {
  optim::Sgd optimizer(model, {.rate = 0.01});
  runtime.manual_seed(kSeed);
  const Tensor loss = model.loss(batch);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  runtime.manual_seed(kSeed + 1);
  const double before = loss.item();
  return {before, model.loss(batch).item()};
}

TEST_P(Placement, AnyHalfOfTheLayersMayRunOnTheCpu) {
  CheckedRuntime runtime(sim_backend());
  const auto whole = small(GetParam()), divided = small(GetParam());
  copy_state(*whole, *divided);
  std::mt19937 random(kSeed);
  int on_cpu = 0;
  for (const nn::NamedModule& each : divided->modules()) {
    const bool leaf = each.module->modules().empty();
    if (!leaf || random() % 2 == 0) continue;
    each.module->place_on(cpu::device);
    ++on_cpu;
  }
  EXPECT_GT(on_cpu, 0);
  const Batch batch = whole->random_batch(kSamples, kSeed);
  const auto [before, after] = train(*runtime, *whole, batch);
  const auto [divided_before, divided_after] = train(*runtime, *divided, batch);
  EXPECT_NEAR(divided_before, before, 1e-5 * std::abs(before));
  EXPECT_NEAR(divided_after, after, 1e-5 * std::abs(after));
  EXPECT_NE(before, after);
}

INSTANTIATE_TEST_SUITE_P(Models, Placement, every_model(), model_name);

}  // namespace
}  // namespace ferry::test
