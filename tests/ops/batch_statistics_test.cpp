// What batch_norm does to running statistics.
#include <gtest/gtest.h>

#include <ferry/ops.h>
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class BatchStatistics : public OnBackend {
 protected:
  static void expect_near(const Tensor& tensor, const std::vector<double>& expected, double tolerance) {
    const Array values = to_array(tensor);
    ASSERT_EQ(values.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values.values[i], expected[i], tolerance) << i;
  }
};

TEST_P(BatchStatistics, RunningOnesMoveByMomentum) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Random random(3);
    const Array x = random_array({4, 3, 5, 2}, -2, 3, dtype, random);
    const DType running = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor mean = zeros({3}, running), variance = ones({3}, running);
    const auto [batch_mean, batch_variance] = channel_statistics(x);
    std::vector<double> expected_mean(3, 0), expected_variance(3, 1);
    for (int step = 0; step < 3; ++step) {
      batch_norm(to_tensor(x, dtype), {}, {}, mean, variance, {.momentum = 0.25});
      for (std::size_t c = 0; c < 3; ++c) {
        expected_mean[c] = 0.75 * expected_mean[c] + 0.25 * batch_mean.values[c];
        expected_variance[c] = 0.75 * expected_variance[c] + 0.25 * batch_variance.values[c] * 40 / 39;
      }
    }
    expect_near(mean, expected_mean, dtype == DType::f64 ? 1e-12 : 1e-5);
    expect_near(variance, expected_variance, dtype == DType::f64 ? 1e-10 : 1e-4);
  }
}

TEST_P(BatchStatistics, InferenceLeavesThemAlone) {
  const Tensor mean = full({2}, 3, DType::f64), variance = full({2}, 4, DType::f64);
  batch_norm(full({5, 2}, 1, DType::f64), {}, {}, mean, variance, {.training = false});
  expect_near(mean, {3, 3}, 0);
  expect_near(variance, {4, 4}, 0);
}

TEST_P(BatchStatistics, ThirtyTwoBitScaleBesideSixteenBitInput) {
  Random random(4);
  const Array x = random_array({8, 3}, -2, 2, DType::bf16, random);
  const Array gamma = random_array({3}, 0.5, 1.5, DType::f32, random),
              beta = random_array({3}, -1, 1, DType::f32, random);
  const Tensor scale = to_tensor(gamma, DType::f32).set_requires_grad();
  const Tensor y = batch_norm(to_tensor(x, DType::bf16), scale, to_tensor(beta, DType::f32), {}, {});
  EXPECT_EQ(y.dtype(), DType::bf16);
  const auto [mean, variance] = channel_statistics(x);
  expect_near(y, normalized(x, mean, variance, &gamma, &beta, 1e-5).values, 0.03);
  y.backward(ones({8, 3}, DType::bf16));
  EXPECT_EQ(scale.grad().dtype(), DType::f32);
}

TEST_P(BatchStatistics, OneOfTheTwoIsAnError) {
  EXPECT_THROW(batch_norm(zeros({4, 2}), {}, {}, zeros({2}), {}), InvalidArgument);
  EXPECT_THROW(batch_norm(zeros({4, 2}), {}, {}, zeros({2}), {}, {.training = false}), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, BatchStatistics, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
