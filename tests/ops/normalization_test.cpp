// Layer and group normalisation: dtypes beside 16-bit x, what is kept for backward, and calls that must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>

#include <ferry/normalization.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class SampleNormalization : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "normalization_test.cpp");
  }
};

TEST_P(SampleNormalization, ThirtyTwoBitScaleBesideSixteenBitInput) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor gamma = full({6}, 2).set_requires_grad(), beta = full({6}, 1).set_requires_grad();
    Tensor x = uniform({4, 6}, 100, 101, dtype).set_requires_grad();
    for (const Tensor& y : {layer_norm(x, {6}, gamma, beta), group_norm(x, 2, gamma, beta)}) {
      EXPECT_EQ(y.dtype(), dtype);
      y.backward(ones({4, 6}, dtype));
      EXPECT_EQ(gamma.grad().dtype(), DType::f32);
      EXPECT_EQ(beta.grad().to_vector<float>(), std::vector<float>(6, 4.0f));
      EXPECT_EQ(x.grad().dtype(), dtype);
      beta.zero_grad();
    }
  }
}

// Sums of gamma's gradient are made of tasks' parts: their number must not show.
TEST_P(SampleNormalization, ThreadsDoNotChangeResults) {
  Tensor x = normal({700, 96}).set_requires_grad(), gamma = normal({96}).set_requires_grad();
  const Tensor dy = normal({700, 96});
  std::vector<std::vector<float>> results[2];
  for (const int run : {0, 1}) {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, run == 0 ? 1 : 2);
    for (const Tensor& y : {layer_norm(x, {96}, gamma), group_norm(x, 3, gamma)}) {
      y.backward(dy);
      results[run].push_back(y.to_vector<float>());
      results[run].push_back(x.grad().to_vector<float>());
      results[run].push_back(gamma.grad().to_vector<float>());
      x.zero_grad();
      gamma.zero_grad();
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

// x and two numbers a row; the result itself is not kept.
TEST_P(SampleNormalization, BackwardKeepsXAndStatistics) {
  constexpr std::int64_t kRows = 64, kLength = 256;
  const Tensor x = uniform({kRows, kLength}).set_requires_grad();
  runtime_->synchronize();
  const std::int64_t before = runtime_->live_bytes().count;
  Tensor loss;
  {
    const Tensor y = layer_norm(x, {kLength});
    loss = sum(y);
  }
  runtime_->synchronize();
  EXPECT_LT(runtime_->live_bytes().count - before, kRows * kLength * 4 / 2);
  EXPECT_TRUE(loss.requires_grad());
}

TEST_P(SampleNormalization, FarFromZeroItKeepsItsPrecision) {
  Random random(7);
  Array x = random_array({3, 512}, -1, 1, DType::f32, random), moved = x;
  for (double& value : x.values) value = std::round(value * 1024) / 1024;
  for (std::size_t i = 0; i < x.values.size(); ++i) moved.values[i] = x.values[i] + 4096;
  const auto near = layer_norm(to_tensor(x, DType::f32), {512}).to_vector<float>(),
             far = layer_norm(to_tensor(moved, DType::f32), {512}).to_vector<float>();
  for (std::size_t i = 0; i < near.size(); ++i) ASSERT_NEAR(near[i], far[i], 2e-3);
}

TEST_P(SampleNormalization, ChannelsLastImagesStaySo) {
  const Tensor x = permute(normal({2, 5, 7, 6}), {0, 3, 1, 2});
  EXPECT_EQ(group_norm(x, 3).strides(), x.strides());
}

TEST_P(SampleNormalization, WhatTheyDoNotTake) {
  const auto x = [] { return of({2, 6, 3}); };
  expect<ShapeError>({
      {"other_shape", [=] { layer_norm(x(), {2}); }, {"layer_norm", "[2, 6, 3]", "[2]"}},
      {"no_axes", [=] { layer_norm(x(), {}); }, {"layer_norm", "[2, 6, 3]"}},
      {"too_many",
       [=] {
         layer_norm(x(), {1, 2, 6, 3});
       },
       {"layer_norm"}},
      {"nothing",
       [=] {
         layer_norm(of({2, 0}), {0});
       },
       {"layer_norm", "[2, 0]"}},
      {"gamma",
       [=] {
         layer_norm(x(), {6, 3}, of({3}));
       },
       {"layer_norm", "'gamma'", "[6, 3]"}},
      {"beta", [=] { layer_norm(x(), {3}, {}, of({6})); }, {"layer_norm", "'beta'", "[3]"}},
      {"rank", [] { group_norm(of({6}), 2); }, {"group_norm", "[6]"}},
      {"group_gamma", [=] { group_norm(x(), 2, of({3})); }, {"group_norm", "'gamma'", "[6]"}},
      {"group_nothing",
       [=] {
         group_norm(of({2, 6, 0}), 2);
       },
       {"group_norm", "no elements"}},
  });
  expect<InvalidArgument>({
      {"groups", [=] { group_norm(x(), 4); }, {"group_norm", "4 groups", "6 channels"}},
      {"no_groups", [=] { group_norm(x(), 0); }, {"group_norm", "0 groups"}},
      {"dtype", [=] { layer_norm(of({2}, DType::i32), {2}); }, {"layer_norm", "'x'"}},
      {"gamma_dtype", [=] { layer_norm(x(), {3}, of({3}, DType::f64)); }, {"'gamma'", "one dtype"}},
      {"two_dtypes",
       [] {
         layer_norm(of({2, 3}, DType::f16), {3}, of({3}), of({3}, DType::f16));
       },
       {"'gamma'", "'beta'"}},
      {"undefined", [] { layer_norm({}, {2}); }, {"layer_norm", "'x'", "undefined"}},
      {"group_undefined", [] { group_norm({}, 1); }, {"group_norm", "'x'", "undefined"}},
  });
}

INSTANTIATE_TEST_SUITE_P(All, SampleNormalization, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
