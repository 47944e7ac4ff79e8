// Activations where plain formulas would overflow, and calls that must fail.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ferry/activations.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Activations : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "activations_test.cpp");
  }
};

TEST_P(Activations, SoftmaxDoesNotOverflow) {
  const Tensor x = from_vector<float>({1e30f, 1e30f, -1e30f, -kInfinity, -88, -90, -100, -kInfinity}, {2, 4});
  const auto y = softmax(x).to_vector<float>();
  EXPECT_EQ((std::vector<float>(y.begin(), y.begin() + 4)), (std::vector<float>{0.5, 0.5, 0, 0}));
  EXPECT_NEAR(y[4], 1 / (1 + std::exp(-2.0) + std::exp(-12.0)), 1e-6);
  EXPECT_EQ(y[7], 0);
  const auto logarithm = log_softmax(x).to_vector<float>();
  EXPECT_NEAR(logarithm[0], -std::log(2.0), 1e-6);
  EXPECT_EQ(logarithm[2], -2e30f);
  EXPECT_EQ(logarithm[3], -kInfinity);
}

TEST_P(Activations, SoftmaxOfNothingButMinusInfinityIsNaN) {
  const Tensor x = full({2, 3}, -kInfinity);
  for (const float value : softmax(x).to_vector<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Activations, FarArguments) {
  const std::vector<float> x = {-100, -20, 0, 20, 100};
  const Tensor t = from_vector(x);
  for (const auto& y :
       {gelu(t).to_vector<float>(), gelu(t, GeluApproximation::tanh).to_vector<float>(), silu(t).to_vector<float>()}) {
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], std::max(0.0f, x[i]), 1e-6) << x[i];
  }
}

// The tail of the normal distribution keeps its relative precision.
TEST_P(Activations, GeluIsPreciseFromZeroToTheTail) {
  std::vector<float> x;
  for (float v = -8; v <= 8; v += 0.0078125f) x.push_back(v);
  const auto y = gelu(from_vector(x)).to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i] * 0.5 * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
    ASSERT_NEAR(y[i], exact, std::abs(exact) * (x[i] < -2 ? 5e-6 : 6e-7)) << x[i];
  }
}

TEST_P(Activations, NaNStaysNaN) {
  const Tensor x = from_vector<float>({std::nanf("")});
  for (const Tensor& y : {gelu(x), gelu(x, GeluApproximation::tanh), silu(x), leaky_relu(x), softmax(x)}) {
    EXPECT_TRUE(std::isnan(y.item()));
  }
}

TEST_P(Activations, NegativeSlopes) {
  Tensor x = from_vector<float>({-2, 3}).set_requires_grad();
  const Tensor y = leaky_relu(x, -0.5);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 3}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{-0.5, 1}));
}

TEST_P(Activations, WhatTheyDoNotTake) {
  const Tensor none;
  expect<InvalidArgument>({
      {"axis",
       [] {
         softmax(of({2, 3}), 2);
       },
       {"softmax", "axis 2", "2 axes"}},
      {"log_axis",
       [] {
         log_softmax(of({2, 3}), -3);
       },
       {"log_softmax", "axis -3"}},
      {"rank_0", [] { softmax(of({})); }, {"softmax", "axis -1"}},
      {"softmax", [&] { softmax(none); }, {"softmax", "'x'", "undefined"}},
      {"log_softmax", [&] { log_softmax(none); }, {"log_softmax", "'x'", "undefined"}},
      {"gelu", [&] { gelu(none); }, {"gelu", "'x'", "undefined"}},
      {"silu", [&] { silu(none); }, {"silu", "'x'", "undefined"}},
      {"leaky_relu", [&] { leaky_relu(none); }, {"leaky_relu", "'x'", "undefined"}},
      {"dropout", [&] { dropout(none); }, {"dropout", "'x'", "undefined"}},
      {"softmax_dtype", [] { softmax(of({2}, DType::i32)); }, {"softmax", "i32 [2]"}},
      {"gelu_dtype", [] { gelu(of({2}, DType::i64)); }, {"gelu", "i64 [2]"}},
      {"dropout_dtype", [] { dropout(of({2}, DType::i64)); }, {"dropout", "i64 [2]"}},
  });
}

INSTANTIATE_TEST_SUITE_P(All, Activations, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
