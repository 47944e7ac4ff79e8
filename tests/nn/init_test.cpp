// The distributions that initialisers draw from.
#include <ferry/init.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <ferry/ops.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

struct Moments {
  double mean = 0, deviation = 0, smallest = 0, largest = 0;
};

Moments moments_of(const Tensor& tensor) {
  const std::vector<double> values = tensor.to(DType::f64).to_vector<double>();
  Moments moments;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) moments.mean += value / count;
  for (const double value : values) {
    moments.deviation += (value - moments.mean) * (value - moments.mean) / count;
  }
  moments.deviation = std::sqrt(moments.deviation);
  moments.smallest = *std::min_element(values.begin(), values.end());
  moments.largest = *std::max_element(values.begin(), values.end());
  return moments;
}

class InitTest : public OnBackend {
 protected:
  // [out, in, 3, 3]
  Tensor weight_ = zeros({96, 64, 3, 3}).set_requires_grad();
  static constexpr double kFanIn = 64 * 9, kFanOut = 96 * 9;

  // Checks a uniform distribution in ±bound.
  void expect_uniform(double bound) const {
    const Moments moments = moments_of(weight_);
    EXPECT_NEAR(moments.mean, 0, 0.01 * bound);
    EXPECT_NEAR(moments.deviation, bound / std::sqrt(3), 0.01 * bound);
    EXPECT_GE(moments.smallest, -bound);
    EXPECT_LE(moments.largest, bound);
    EXPECT_GT(moments.largest, 0.99 * bound);
  }
  void expect_normal(double deviation) const {
    const Moments moments = moments_of(weight_);
    EXPECT_NEAR(moments.mean, 0, 0.02 * deviation);
    EXPECT_NEAR(moments.deviation, deviation, 0.02 * deviation);
    EXPECT_GT(moments.largest, 3 * deviation);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, InitTest, ::testing::Values(cpu_backend(), sim_backend()), backend_name);

TEST_P(InitTest, ConstantUniformAndNormal) {
  init::constant(weight_, 3);
  EXPECT_THAT(weight_.to_vector<float>(), ::testing::Each(3));
  init::uniform(weight_, -2, 2);
  expect_uniform(2);
  init::normal(weight_, 0, 0.02);
  expect_normal(0.02);
  EXPECT_TRUE(weight_.is_leaf() && weight_.requires_grad());
}

TEST_P(InitTest, XavierAndKaimingFollowTheFans) {
  init::xavier_uniform(weight_);
  expect_uniform(std::sqrt(6 / (kFanIn + kFanOut)));
  init::xavier_normal(weight_, 2);
  expect_normal(2 * std::sqrt(2 / (kFanIn + kFanOut)));
  init::kaiming_uniform(weight_, {.slope = std::sqrt(5)});
  expect_uniform(1 / std::sqrt(kFanIn));
  init::kaiming_normal(weight_);
  expect_normal(std::sqrt(2 / kFanIn));
  init::kaiming_normal(weight_, {.fan = init::Fan::out});
  expect_normal(std::sqrt(2 / kFanOut));
}

TEST_P(InitTest, TheTruncatedNormalHasItsMomentsAndStaysInside) {
  init::truncated_normal(weight_, 1, 0.5, 0, 2);  // two deviations on either side
  Moments moments = moments_of(weight_);
  EXPECT_NEAR(moments.mean, 1, 0.01);
  EXPECT_NEAR(moments.deviation, 0.5 * 0.8796, 0.005);
  EXPECT_GE(moments.smallest, 0);
  EXPECT_LE(moments.largest, 2);
  init::truncated_normal(weight_, 0, 1, -10, 10);  // hardly cut
  moments = moments_of(weight_);
  EXPECT_NEAR(moments.deviation, 1, 0.02);
  EXPECT_GT(moments.largest, 3.2);
  EXPECT_LT(moments.largest, 6);
  init::truncated_normal(weight_, 0, 1, 1, 2);  // one side: mean (φ(1) - φ(2)) / (Φ(2) - Φ(1))
  EXPECT_NEAR(moments_of(weight_).mean, 1.3832, 0.01);
  EXPECT_GE(moments_of(weight_).smallest, 1);
}

TEST_P(InitTest, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{6, 4, 2}, Shape{9, 5}}) {
    const Tensor tensor = zeros(shape);
    init::orthogonal(tensor, 2);
    const bool wide = shape[0] <= tensor.numel() / shape[0];
    const Tensor matrix = reshape(tensor, {shape[0], -1});
    const Tensor product = wide ? matmul(matrix, transpose(matrix)) : matmul(transpose(matrix), matrix);
    const std::vector<float> values = product.to_vector<float>();
    const auto extent = static_cast<std::size_t>(product.size(0));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], i / extent == i % extent ? 4 : 0, 1e-5) << i;
    }
  }
}

TEST_P(InitTest, SixteenBitParametersAndBadArguments) {
  const Tensor half = zeros({64, 64}, DType::bf16);
  init::truncated_normal(half, 0, 1, -2, 2);
  EXPECT_NEAR(moments_of(half).deviation, 0.88, 0.02);
  init::orthogonal(half);
  EXPECT_THROW(init::xavier_normal(zeros({4})), ShapeError);
  EXPECT_THROW(init::truncated_normal(half, 0, 0, -1, 1), InvalidArgument);
  EXPECT_THROW(init::truncated_normal(half, 0, 1, 8, 9), InvalidArgument);
  EXPECT_THROW(init::normal(half, 0, -1), InvalidArgument);
}

}  // namespace
}  // namespace ferry::test
