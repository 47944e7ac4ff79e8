// Tensors made from nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Creation : public OnBackend {};

TEST_P(Creation, FillsEveryDtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = full({2, 3}, 1, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.shape(), (Shape{2, 3}));
    EXPECT_THAT(to_array(x).values, Each(1));
    EXPECT_THAT(to_array(zeros({5}, dtype)).values, Each(0));
    EXPECT_THAT(to_array(ones_like(x)).values, Each(1));
    EXPECT_THAT(to_array(zeros({0, 4}, dtype)).values, IsEmpty());
    EXPECT_EQ(full({}, 1, dtype).item(), 1);
  }
}

TEST_P(Creation, LikeTakesShapeAndDtype) {
  const Tensor x = transpose(zeros({2, 3}, DType::f64));
  EXPECT_EQ(zeros_like(x).shape(), (Shape{3, 2}));
  EXPECT_EQ(zeros_like(x).dtype(), DType::f64);
}

TEST_P(Creation, ArangeCountsUpAndDown) {
  EXPECT_THAT(to_array(arange(0, 5)).values, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(to_array(arange(1, 2, 0.25, DType::f32)).values, ElementsAre(1, 1.25, 1.5, 1.75));
  EXPECT_THAT(to_array(arange(3, 0, -1, DType::i32)).values, ElementsAre(3, 2, 1));
  EXPECT_THAT(to_array(arange(3, 3)).values, IsEmpty());
  EXPECT_THAT(to_array(arange(3, 0)).values, IsEmpty());
}

TEST_P(Creation, UniformIsWithinItsBounds) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const std::vector<double> values = to_array(uniform({10'000}, -1, 3, dtype)).values;
    double total = 0;
    for (const double value : values) {
      EXPECT_GE(value, -1);
      EXPECT_LE(value, 3);  // 16 bits round up to the bound
      total += value;
    }
    EXPECT_NEAR(total / 10'000, 1, 0.06);
  }
}

TEST_P(Creation, NormalHasItsMoments) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::vector<double> values = to_array(normal({20'000}, 2, 3, dtype)).values;
    double mean = 0, square = 0;
    for (const double value : values) mean += value / 20'000;
    for (const double value : values) square += (value - mean) * (value - mean) / 20'000;
    EXPECT_NEAR(mean, 2, 0.12);
    EXPECT_NEAR(std::sqrt(square), 3, 0.1);
  }
}

TEST_P(Creation, RandomNumbersDependOnSeedAndCountOnly) {
  runtime_->manual_seed(5);
  const auto first = normal({1001}).to_vector<float>(), second = normal({1001}).to_vector<float>();
  EXPECT_NE(first, second);
  runtime_->manual_seed(5);
  {
    const DeviceGuard<cpu> guard;
    EXPECT_EQ(normal({1001}).to_vector<float>(), first);
  }
  EXPECT_EQ(normal({1001}).to_vector<float>(), second);
  runtime_->manual_seed(6);
  EXPECT_NE(normal({1001}).to_vector<float>(), first);
}

TEST_P(Creation, DrawnTogetherOrApart) {
  runtime_->manual_seed(5);
  const auto together = uniform({12}).to_vector<float>();
  runtime_->manual_seed(5);
  auto apart = uniform({5}).to_vector<float>();
  const auto rest = uniform({7}).to_vector<float>();
  apart.insert(apart.end(), rest.begin(), rest.end());
  EXPECT_EQ(apart, together);
}

TEST_P(Creation, FromHostCopies) {
  std::vector<float> values{1, 2, 3, 4};
  const Tensor x = from_vector(values, {2, 2});
  const Tensor y = x + 0.0;
  values.assign(4, 9);
  EXPECT_EQ(x.device(), cpu::device);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THROW(from_vector(values, {3}), ShapeError);
  EXPECT_THAT(to_array(from_vector<bool>({true, false})).values, ElementsAre(1, 0));
}

TEST_P(Creation, ImpossibleRequestsAreErrors) {
  EXPECT_THROW(zeros({2, -1}), InvalidArgument);
  EXPECT_THROW(arange(0, 1, 0), InvalidArgument);
  EXPECT_THROW(uniform({2}, 0, 1, DType::i32), InvalidArgument);
  EXPECT_THROW(normal({2}, 0, 1, DType::boolean), InvalidArgument);
  EXPECT_THROW(normal({2}, 0, -1), InvalidArgument);
  EXPECT_THROW(uniform({2}, 1, 0), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, Creation, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
