// min, variance, logsumexp and norm: values against plain loops, gradients against finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ferry/reductions.h>
#include "tests/autograd/gradient_check.h"
#include "tests/support/bad_call.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Reductions : public OnBackend {};

using Call = std::function<Tensor(const Tensor& x, const std::vector<int>& axes, bool keepdim)>;

struct Case {
  std::string name;
  Call call;
  std::function<Array(const Array& x, const std::vector<int>& axes, bool keepdim)> reference;
};

std::vector<Case> reduction_calls() {
  const auto variance_of = [](const Array& x, const std::vector<int>& axes, bool keepdim, double correction) {
    const Array mean = reduced(x, axes, true, Reducer::mean);
    const Array squares = map(x, mean, [](double a, double b) { return (a - b) * (a - b); });
    const Array total = reduced(squares, axes, keepdim, Reducer::sum);
    const double n = static_cast<double>(x.values.size()) / static_cast<double>(total.values.size());
    return map(total, [=](double v) { return v / (n - correction); });
  };
  return {
      {"min", [](const Tensor& x, const auto& axes, bool keepdim) { return min(x, axes, keepdim); },
       [](const Array& x, const auto& axes, bool keepdim) {
         const auto negated = [](double v) { return -v; };
         return map(reduced(map(x, negated), axes, keepdim, Reducer::max), negated);
       }},
      {"variance", [](const Tensor& x, const auto& axes, bool keepdim) { return variance(x, axes, 1, keepdim); },
       [=](const Array& x, const auto& axes, bool keepdim) { return variance_of(x, axes, keepdim, 1); }},
      {"biased", [](const Tensor& x, const auto& axes, bool keepdim) { return variance(x, axes, 0, keepdim); },
       [=](const Array& x, const auto& axes, bool keepdim) { return variance_of(x, axes, keepdim, 0); }},
      {"logsumexp", [](const Tensor& x, const auto& axes, bool keepdim) { return logsumexp(x, axes, keepdim); },
       [](const Array& x, const auto& axes, bool keepdim) {
         const Array powers = map(x, [](double v) { return std::exp(v); });
         return map(reduced(powers, axes, keepdim, Reducer::sum), [](double v) { return std::log(v); });
       }},
      {"norm", [](const Tensor& x, const auto& axes, bool keepdim) { return norm(x, axes, keepdim); },
       [](const Array& x, const auto& axes, bool keepdim) {
         const Array squares = map(x, [](double v) { return v * v; });
         return map(reduced(squares, axes, keepdim, Reducer::sum), [](double v) { return std::sqrt(v); });
       }},
  };
}

TEST_P(Reductions, MatchPlainLoops) {
  Random random(11);
  for (const Case& each : reduction_calls()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const std::vector<int>& axes : std::vector<std::vector<int>>{{}, {0}, {1, -1}, {-2}}) {
        for (const bool keepdim : {false, true}) {
          SCOPED_TRACE(each.name + " " + std::string(name_of(dtype)) + " of " + std::to_string(axes.size()));
          const Array x = random_array({3, 4, 5}, -2, 2, dtype, random);
          const Tensor y = each.call(to_tensor(x, dtype), axes, keepdim);
          EXPECT_EQ(y.dtype(), dtype);
          const Array expected = each.reference(x, axes, keepdim), found = to_array(y);
          ASSERT_EQ(found.shape, expected.shape);
          for (std::size_t i = 0; i < expected.values.size(); ++i) {
            ASSERT_NEAR(found.values[i], expected.values[i], rounding(dtype, 4 + std::abs(expected.values[i])));
          }
          if (dtype != DType::f64) continue;
          check_gradients(
              {{x}}, [&](const std::vector<Tensor>& t) { return each.call(t[0], axes, keepdim); }, random);
        }
      }
    }
  }
}

TEST_P(Reductions, AtTheirLimits) {
  const Tensor x = from_vector<double>({1e4, 1e4, -kInfinity, -kInfinity, kInfinity, 0}, {3, 2});
  const auto y = logsumexp(x, {1}).to_vector<double>();
  EXPECT_DOUBLE_EQ(y[0], 1e4 + std::log(2.0));
  EXPECT_EQ(y[1], -kInfinity);
  EXPECT_EQ(y[2], kInfinity);
  Tensor zero = zeros({3}).set_requires_grad();
  const Tensor length = norm(zero);
  EXPECT_EQ(length.item(), 0);
  length.backward();
  EXPECT_EQ(zero.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(norm(full({2}, 1e30)).item(), kInfinity);
  EXPECT_TRUE(std::isnan(variance(ones({1})).item()));
  EXPECT_EQ(variance(ones({1}), {}, 0).item(), 0);
  EXPECT_TRUE(std::isnan(variance(zeros({0})).item()));
}

TEST_P(Reductions, WhatTheyDoNotTake) {
  for (const Case& each : reduction_calls()) {
    const std::string op = each.name == "biased" ? "variance" : each.name;
    expect_errors<InvalidArgument>(
        {{"axis",
          [&] {
            each.call(of({2, 3}), {2}, false);
          },
          {op, "axis 2"}},
         {"integers", [&] { each.call(of({2}, DType::i32), {}, false); }, {op, "'x'", "i32 [2]"}},
         {"undefined", [&] { each.call({}, {}, false); }, {op, "'x'", "undefined"}}},
        "reductions_test.cpp");
  }
  expect_errors<ShapeError>({{"min", [] { min(of({0})); }, {"min", "no elements"}},
                             {"logsumexp",
                              [] {
                                logsumexp(of({2, 0}), {1});
                              },
                              {"logsumexp", "no elements"}}},
                            "reductions_test.cpp");
}

INSTANTIATE_TEST_SUITE_P(All, Reductions, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
