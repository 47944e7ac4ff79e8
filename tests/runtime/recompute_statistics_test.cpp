// Normalisations under a memory budget: y, and relu of it, are computed again from the statistics that the call saved,
// with the bits that they had, and so is what came of them.
#include <ferry/swap.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ferry/device_guard.h>
#include <ferry/ferry.h>
#include "profiler/recorder.h"
#include "src/runtime/runtime_core.h"
#include "tests/runtime/norm_net.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::UnorderedElementsAreArray;

using Names = std::vector<std::string>;

// Counts the ops that run again in its lifetime.
class Reruns {
 public:
  explicit Reruns(CheckedRuntime& runtime) : core_(*runtime->core()) { core_.set_recorder(&recorder_); }
  ~Reruns() { core_.set_recorder(nullptr); }
  Reruns(const Reruns&) = delete;
  Reruns& operator=(const Reruns&) = delete;

  std::map<std::string, int> counts() const {
    const trace::Trace trace = recorder_.finish();
    std::map<std::string, int> counts;
    for (const trace::OpRecord& op : trace.ops)
      if (op.phase == trace::Phase::recompute) ++counts[trace.string(op.name)];
    return counts;
  }

 private:
  RuntimeCore& core_;
  profiler::Recorder recorder_;
};

// Under a budget what can be computed again leaves the device.
using Crowd = std::function<void()>;

struct NormUse {
  std::string name;
  std::function<Tensors(const Crowd& crowd)> results;
  Names reruns;                // the ops that bring its results back, each after all else has left
  Bytes smallest = kKiB * 64;  // that leaves: statistics and parameters stay
};

Tensors y_used_twice() {
  const Tensor y = NormLayer().y();
  return {relu(y), y, y * 2.0, relu(y)};
}

Tensors without_affine() {
  const Tensor y = batch_norm(NormLayer().x(), {}, {}, {}, {});
  return {relu(y), y};
}

Tensors relu_of_part(std::int64_t first) {
  const Tensor y = NormLayer().y();
  return {relu(narrow(y, 0, first, kImages / 2)), y};
}

Tensors with_running_averages(bool training) {
  const NormLayer layer;
  const Tensor mean = zeros({kChannels}), variance = ones({kChannels});
  const Tensor y = batch_norm(layer.x(), layer.gamma, layer.beta, mean, variance, {.training = training});
  return {relu(y), y, mean, variance};
}

Tensors from_images(bool channels_last) {
  Tensor images = channels_last ? permute(normal({kImages, kExtent, kExtent, kChannels}), {0, 3, 1, 2})
                                : normal({kImages, kChannels, kExtent, kExtent});
  const Tensor y = NormLayer().normalized(images.set_requires_grad() * 2.0);
  EXPECT_EQ(y.strides(), channels_last ? channels_last_strides(y.shape()) : contiguous_strides(y.shape()));
  return {relu(y), y};
}

Tensor normalized_rows() {
  const Tensor weight = normal({64, 64}).set_requires_grad(), gamma = normal({64}), beta = normal({64});
  return batch_norm(matmul(normal({8192, 64}), weight), gamma, beta, {}, {});
}

// x is dense in neither order, and copied for the call.
Tensors of_a_view() {
  const NormLayer layer;
  const Tensor x = transpose(layer.x());
  EXPECT_FALSE(x.is_contiguous());
  const Tensor y = layer.normalized(x);
  return {relu(y), y};
}

Tensors in_16_bits() {
  NormLayer layer;
  layer.weight = layer.weight.detach().to(DType::bf16).set_requires_grad();
  const Tensor y = layer.normalized(layer.x(some_images(DType::bf16)));
  EXPECT_EQ(y.dtype(), DType::bf16);
  return {relu(y).to(DType::f32), y.to(DType::f32)};
}

Tensors x_written_before_relu() {
  const NormLayer layer;
  Tensor x = layer.x();
  const Tensor y = layer.normalized(x);
  {
    const NoGrad no_grad;
    x.add_(full({1}, 3));
  }
  return {relu(y), y, x};
}

void write_affine(NormLayer& layer) {
  const NoGrad no_grad;
  layer.gamma.add_(full({1}, 3));
  layer.beta.add_(full({1}, 3));
}

// As they were made, gamma and beta can be computed again; once written, as by an optimizer, they can not.
Tensors written_before_relu(bool as_made) {
  NormLayer layer;
  if (!as_made) write_affine(layer);
  const Tensor y = layer.y();
  write_affine(layer);
  return {relu(y), y};
}

Tensors written_at_last(const Crowd& crowd, bool as_made) {
  NormLayer layer;
  if (!as_made) write_affine(layer);
  const Tensor y = layer.y(), z = relu(y);
  crowd();
  write_affine(layer);
  return {z, y};
}

// What y and z were computed from, and y, is referenced by nobody.
Tensors without_gradients() {
  const NoGrad no_grad;
  return {relu(NormLayer().y())};
}

Tensors relu_on_the_cpu() {
  const Tensor y = NormLayer().y();
  const DeviceGuard<cpu> guard;
  return {relu(y), y};
}

Tensors gradients(const Crowd& crowd) {
  const NormLayer layer;
  const Tensor y = layer.y(), loss = sum(relu(y) * y);
  crowd();
  loss.backward();
  return {layer.weight.grad(), layer.gamma.grad(), layer.beta.grad()};
}

std::vector<NormUse> norm_uses() {
  const auto of_y = [](auto function) { return [=](const Crowd&) { return Tensors{function(NormLayer().y())}; }; };
  const auto of_rows = [](auto function) { return [=](const Crowd&) { return Tensors{function(normalized_rows())}; }; };
  const auto all = [](auto function) { return [=](const Crowd&) { return Tensors(function()); }; };
  const auto itself = [](const Tensor& y) { return y; };
  const auto its_relu = [](const Tensor& y) { return relu(y); };
  const Names fused = {"conv2d", "batch_norm_apply"}, apart = {"conv2d", "batch_norm_apply", "relu"};
  const Names rows = {"matmul", "batch_norm_apply"}, images = {"mul_scalar", "batch_norm_apply"};
  return {
      {"y", of_y(itself), fused},
      {"relu", of_y(its_relu), fused},
      {"relu_and_y_and_more", all(y_used_twice), {"conv2d", "batch_norm_apply", "mul_scalar"}},
      {"relu_of_relu", of_y([](const Tensor& y) { return relu(relu(y)); }), apart},
      {"relu_of_transposed", of_y([](const Tensor& y) { return relu(transpose(y)); }), apart},
      {"relu_of_the_first_part", all([] { return relu_of_part(0); }), apart},
      {"relu_of_the_last_part", all([] { return relu_of_part(kImages / 2); }), apart},
      {"relu_on_the_cpu", all(relu_on_the_cpu), fused},
      {"without_affine", all(without_affine), fused},
      {"rows", of_rows(itself), rows},
      {"relu_of_rows", of_rows(its_relu), rows},
      {"relu_of_the_same_shape", of_rows([](const Tensor& y) { return relu(reshape(y, y.shape())); }), rows},
      {"relu_of_another_shape",
       of_rows([](const Tensor& y) {
         return relu(reshape(y, {-1, 128}));
       }),
       {"matmul", "batch_norm_apply", "relu"}},
      {"contiguous", all([] { return from_images(false); }), images},
      {"channels_last", all([] { return from_images(true); }), images},
      {"view", all(of_a_view), {"conv2d", "copy", "batch_norm_apply"}},
      {"bf16", all(in_16_bits), {"conv2d", "copy", "batch_norm_apply"}},
      {"running_averages", all([] { return with_running_averages(true); }), fused},
      {"evaluation", all([] { return with_running_averages(false); }), {"conv2d", "batch_norm_inference", "relu"}},
      {"x_written_before_relu", all(x_written_before_relu), fused},
      {"affine_written_before_relu", all([] { return written_before_relu(true); }), fused},
      {"affine_written_twice_before_relu", all([] { return written_before_relu(false); }), {"relu"}},
      {"affine_written_at_last", [](const Crowd& crowd) { return written_at_last(crowd, true); }, fused},
      {"affine_written_twice_at_last", [](const Crowd& crowd) { return written_at_last(crowd, false); }, fused},
      {"gradients", gradients, fused},
      {"statistics_that_left", of_y(its_relu), {"conv2d", "batch_norm", "batch_norm_apply"}, Bytes{1}},
      {"without_gradients", all(without_gradients), {"conv2d", "batch_norm", "batch_norm_apply"}},
  };
}

class RecomputedNorm : public ::testing::TestWithParam<NormUse> {
 protected:
  static constexpr Bytes kBudget = kMiB * 16;

  // The results' values; what else there is leaves before each is read.
  static std::vector<std::vector<float>> values(const Crowd& crowd) {
    set_random_state({5, 0});
    std::vector<std::vector<float>> values;
    for (const Tensor& result : GetParam().results(crowd)) {
      crowd();
      values.push_back(result.to_vector<float>());
    }
    return values;
  }
};

TEST_P(RecomputedNorm, HasTheValuesThatItHad) {
  std::vector<std::vector<float>> expected;
  {
    CheckedRuntime runtime{sim_backend()};
    expected = values([] {});
  }
  for (const EvictionMethods methods : {EvictionMethods::recompute, EvictionMethods::both}) {
    CheckedRuntime runtime{adversarial_backend(3)};
    MemoryBudget budget({.size = std::to_string(kBudget.count),
                         .methods = methods,
                         .policy = "lru",
                         .minimum_evictee_size = GetParam().smallest,
                         .plans = false});
    const Reruns reruns(runtime);
    // What is used last leaves last.
    const auto crowd = [] {
      Tensors others;
      for (Bytes held{}; held < kBudget * 2; held += kMiB) others.push_back(full({kMiB.count / 4}, 1));
    };
    EXPECT_EQ(values(crowd), expected);
    if (methods == EvictionMethods::both) continue;
    std::map<std::string, int> counts = reruns.counts();
    counts.erase("normal");  // the image
    Names names;
    for (const auto& [name, count] : counts) names.push_back(name);
    EXPECT_THAT(names, UnorderedElementsAreArray(GetParam().reruns));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecomputedNorm, ::testing::ValuesIn(norm_uses()),
                         [](const auto& test) { return test.param.name; });

constexpr int kNormSteps = 6;

struct NormNetReference {
  std::vector<std::vector<float>> bits;
  Bytes peak;
};
// Checkpoints change no bits.
const NormNetReference& unlimited_norm_net() {
  static const NormNetReference reference = [] {
    CheckedRuntime runtime{sim_backend()};
    set_random_state({7, 0});
    NormNet net;
    for (int i = 0; i < kNormSteps; ++i) net.step();
    return NormNetReference{net.bits(), runtime->memory_stats(gpu::device).peak_allocated};
  }();
  return reference;
}

struct NormBudget {
  std::string name;
  EvictionMethods methods;
  std::string policy = "hybrid";
  bool plans = true;
  int percent = 60;  // of what it takes without a budget
  bool checkpoints = false;
};

class TrainedNorms : public ::testing::TestWithParam<NormBudget> {};

TEST_P(TrainedNorms, RunAgainFromTheirStatistics) {
  const NormBudget& it = GetParam();
  const NormNetReference& reference = unlimited_norm_net();
  CheckedRuntime runtime{adversarial_backend(13)};
  MemoryBudget budget({.size = std::to_string(reference.peak.count * it.percent / 100),
                       .methods = it.methods,
                       .policy = it.policy,
                       .minimum_evictee_size = kKiB * 64,
                       .plans = it.plans,
                       .planning_effort = 0.03});
  set_random_state({7, 0});
  std::optional<NormNet> net(std::in_place);
  std::optional<Reruns> reruns;
  for (int i = 0; i < kNormSteps; ++i) {
    if (i == kNormSteps / 2) reruns.emplace(runtime);
    net->step(it.checkpoints);
  }
  EXPECT_EQ(net->bits(), reference.bits);
  EXPECT_EQ(budget.stats().planned_iterations >= kNormSteps / 2, it.plans) << budget.stats().planned_iterations;
  const std::map<std::string, int> counts = reruns->counts();
  reruns.reset();
  if (it.checkpoints) return;  // the first run of a region keeps no statistics
  EXPECT_TRUE(counts.empty() || it.methods != EvictionMethods::swap);
  EXPECT_TRUE(counts.contains("batch_norm_apply") || it.methods != EvictionMethods::recompute);
  EXPECT_FALSE(counts.contains("batch_norm") || counts.contains("relu"));
}

INSTANTIATE_TEST_SUITE_P(Budgets, TrainedNorms,
                         ::testing::Values(NormBudget{"by_hybrid", EvictionMethods::recompute, "hybrid", false},
                                           NormBudget{"by_dtr", EvictionMethods::recompute, "dtr", false},
                                           NormBudget{"planned_recompute", EvictionMethods::recompute},
                                           NormBudget{"planned_swap", EvictionMethods::swap},
                                           NormBudget{"planned_both", EvictionMethods::both},
                                           NormBudget{"checkpoints", EvictionMethods::recompute, "hybrid", true, 50,
                                                      true}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ferry::test
