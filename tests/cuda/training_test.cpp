// Every model trains on the kernels of the CUDA backend as on the CPU, without a copy to it.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include <ferry/optim.h>
#include "tests/cuda/cuda_fixture.h"
#include "tests/models/each_model.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using models::Batch;
using models::Model;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSamples = 2;
constexpr int kSteps = 2;

// Losses of some steps on one batch, and what was said on the standard error stream meanwhile.
struct Steps {
  std::vector<double> losses;
  std::string messages;
  int kernels = 0;  // of the CUDA backend
};

Batch converted(Batch batch, DType dtype) {
  for (Tensor& input : batch.inputs) {
    if (is_floating(input.dtype())) input = input.to(dtype);
  }
  if (is_floating(batch.targets.dtype())) batch.targets = batch.targets.to(dtype);
  return batch;
}

template <class Optimizer, class Options>
Steps train(const Backend& backend, const models::Entry& entry, DType dtype, const Options& options) {
  fake_cuda::reset();
  CheckedRuntime runtime(backend);
  runtime->manual_seed(3);
  testing::internal::CaptureStderr();
  Steps run;
  {
    const auto model = entry.make({.dtype = dtype, .small = true});
    Optimizer optimizer(*model, options);
    const Batch batch = converted(model->random_batch(kSamples, 5), dtype);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const Tensor loss = model->loss(batch);
      loss.backward();
      optimizer.step();
      run.losses.push_back(loss.item());
    }
  }
  run.messages = testing::internal::GetCapturedStderr();
  run.kernels = fake_cuda::calls("cudaLaunchHostFunc");
  return run;
}

void expect_close(const Steps& run, const Steps& expected, double tolerance) {
  ASSERT_EQ(run.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], expected.losses[i], tolerance * std::abs(expected.losses[i])) << "step " << i;
  }
}

class CudaTraining : public EachModel {};

// In f64, where steps of a model that doubles each error still agree closely enough to show a wrong gradient.
TEST_P(CudaTraining, LossesAreTheCpus) {
  const optim::SgdOptions options{.rate = 1e-2, .momentum = 0.9};
  const Steps run = train<optim::Sgd>(cuda_backend(), GetParam(), DType::f64, options);
  EXPECT_THAT(run.messages, Not(HasSubstr("runs on the CPU")));
  expect_close(run, train<optim::Sgd>(cpu_backend(), GetParam(), DType::f64, options), 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTraining, every_model(), model_name);

models::Entry entry_of(std::string_view name) {
  for (const models::Entry& entry : models::all()) {
    if (entry.name == name) return entry;
  }
  throw InvalidArgument("no such model");
}

class CudaModels : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaModels, HaveAKernelForEveryOp) {
  const Steps run = train<optim::AdamW>(cuda_backend(), entry_of(GetParam()), DType::f32, optim::AdamWOptions{});
  EXPECT_THAT(run.messages, Not(HasSubstr("runs on the CPU")));
  EXPECT_GT(run.kernels, 0);
  expect_close(run, train<optim::AdamW>(cpu_backend(), entry_of(GetParam()), DType::f32, optim::AdamWOptions{}), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(OfTheField, CudaModels, ::testing::Values("resnet50", "gpt2", "bert-base", "mlp", "lenet"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace ferry::test
