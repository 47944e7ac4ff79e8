#include <cmath>
#include <limits>

#include <ferry/activations.h>
#include "src/runtime/runtime_core.h"
#include "tests/ops/op_case.h"
#include "tests/support/philox_reference.h"

namespace ferry::test {
namespace {

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// e^x over its sum along axis, or the logarithm of that.
Array softmax_of(const Array& x, int axis, bool logarithm) {
  const Array largest = reduced(x, {axis}, true, Reducer::max);
  const Array below = map(x, largest, [](double a, double b) { return a - b; });
  const Array total = reduced(map(below, [](double v) { return std::exp(v); }), {axis}, true, Reducer::sum);
  return map(below, total,
             [logarithm](double v, double sum) { return logarithm ? v - std::log(sum) : std::exp(v) / sum; });
}

void add_elementwise(std::vector<OpCase>& cases, const std::string& op, const std::string& variant,
                     const std::function<Tensor(const Tensor&)>& call, const std::function<double(double)>& reference) {
  const std::vector<Shape> shapes = {{}, {1}, {5}, {2, 3}, {2, 3, 4, 5}, {0, 3}, {3, 700}};
  for (const Shape& shape : shapes) {
    cases.push_back({op,
                     to_string(shape) + variant,
                     {{shape, -6, 6}},
                     [call](const Tensors& t) { return call(t[0]); },
                     [reference](const Arrays& t) { return map(t[0], reference); },
                     floats(),
                     1,
                     6});
  }
}

// The stream starts anew at each call, so that the same elements are dropped in all of them.
void add_dropout(std::vector<OpCase>& cases, const Shape& shape, double p) {
  constexpr std::uint64_t kSeed = 77;
  cases.push_back({"dropout",
                   to_string(shape) + std::to_string(p),
                   {{shape}},
                   [p](const Tensors& t) {
                     current_core()->seed(kSeed);
                     return dropout(t[0], p);
                   },
                   [p](const Arrays& t) {
                     Array y = t[0];
                     for (std::size_t i = 0; i < y.values.size(); ++i) {
                       y.values[i] = philox_uniform(kSeed, i) < p ? 0 : y.values[i] / (1 - p);
                     }
                     return y;
                   },
                   floats(),
                   1,
                   20});
}

}  // namespace

std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  const std::vector<std::pair<Shape, int>> shapes = {
      {{1}, 0},           {{5}, 0},    {{3, 4}, 1}, {{3, 4}, 0},    {{2, 3, 4, 5}, -3}, {{2, 3, 70}, 1},
      {{33, 2, 130}, -1}, {{0, 4}, 1}, {{4, 0}, 1}, {{2, 2500}, 1}, {{70, 3}, 0}};
  for (const auto& [shape, axis] : shapes) {
    const int rank = shape.rank(), at = axis;
    for (const bool logarithm : {false, true}) {
      cases.push_back({logarithm ? "log_softmax" : "softmax",
                       to_string(shape) + std::to_string(axis),
                       {{shape, -4, 4}},
                       [=](const Tensors& t) { return logarithm ? log_softmax(t[0], at) : softmax(t[0], at); },
                       [=](const Arrays& t) { return softmax_of(t[0], at < 0 ? at + rank : at, logarithm); },
                       floats(),
                       1,
                       logarithm ? 16.0 : 1.0});
    }
  }
  add_elementwise(
      cases, "gelu", "", [](const Tensor& x) { return gelu(x); }, [](double x) { return x * normal_below(x); });
  add_elementwise(
      cases, "gelu", "tanh", [](const Tensor& x) { return gelu(x, GeluApproximation::tanh); },
      [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); });
  add_elementwise(
      cases, "silu", "", [](const Tensor& x) { return silu(x); }, [](double x) { return x / (1 + std::exp(-x)); });
  for (const double slope : {0.0, 0.01, 0.3}) {
    add_elementwise(
        cases, "leaky_relu", std::to_string(slope), [slope](const Tensor& x) { return leaky_relu(x, slope); },
        [slope](double x) { return x > 0 ? x : slope * x; });
  }
  const std::vector<Shape> dropped = {{}, {7}, {2, 3, 4, 5}, {0, 3}, {3, 300}};
  for (const Shape& shape : dropped) add_dropout(cases, shape, 0.3);
  add_dropout(cases, {50}, 0.875);
  add_dropout(cases, {50}, 1);
  return cases;
}

}  // namespace ferry::test
