#include <cmath>

#include <ferry/normalization.h>
#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

constexpr double kNormEpsilon = 1e-3;

// x as rows of `length` elements, each less its mean and over its standard deviation.
Array standardized(const Array& x, std::int64_t length) {
  Array y = x;
  const auto n = static_cast<std::size_t>(length);
  for (std::size_t first = 0; first < y.values.size(); first += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = first; i < first + n; ++i) mean += x.values[i] / static_cast<double>(n);
    for (std::size_t i = first; i < first + n; ++i) {
      variance += (x.values[i] - mean) * (x.values[i] - mean) / static_cast<double>(n);
    }
    for (std::size_t i = first; i < first + n; ++i)
      y.values[i] = (x.values[i] - mean) / std::sqrt(variance + kNormEpsilon);
  }
  return y;
}

enum class Affine { none, gamma, beta, both };

// Which of a case's inputs are gamma and beta.
struct Vectors {
  Affine affine;

  bool has_gamma() const { return affine == Affine::gamma || affine == Affine::both; }
  bool has_beta() const { return affine == Affine::beta || affine == Affine::both; }
  std::size_t count() const { return (has_gamma() ? 1u : 0u) + (has_beta() ? 1u : 0u); }
  Tensor gamma(const Tensors& t) const { return has_gamma() ? t[1] : Tensor(); }
  Tensor beta(const Tensors& t) const { return has_beta() ? t.back() : Tensor(); }
  // y times gamma plus beta, which broadcast to it.
  Array apply(Array y, const Arrays& t, const Shape& shape) const {
    if (has_gamma()) y = map(y, reshaped(t[1], shape), [](double a, double b) { return a * b; });
    if (has_beta()) y = map(y, reshaped(t.back(), shape), [](double a, double b) { return a + b; });
    return y;
  }
};

void add_layer_norm(std::vector<OpCase>& cases, const Shape& x, int axes, Affine affine) {
  Shape normalized;
  for (int i = x.rank() - axes; i < x.rank(); ++i) normalized.push_back(x[i]);
  const Vectors vectors{affine};
  std::vector<Input> inputs{{x}};
  for (std::size_t i = 0; i < vectors.count(); ++i) inputs.push_back({normalized});
  cases.push_back(
      {"layer_norm", to_string(x) + std::to_string(axes) + "affine" + std::to_string(static_cast<int>(affine)), inputs,
       [=](const Tensors& t) { return layer_norm(t[0], normalized, vectors.gamma(t), vectors.beta(t), kNormEpsilon); },
       [=](const Arrays& t) { return vectors.apply(standardized(t[0], normalized.product()), t, normalized); },
       floats(), 1 + vectors.count(), 16});
}

void add_group_norm(std::vector<OpCase>& cases, const Shape& x, std::int64_t groups, Affine affine) {
  Shape along = Dims::filled(x.rank() - 1, 1);
  along[0] = x[1];
  const Vectors vectors{affine};
  std::vector<Input> inputs{{x}};
  for (std::size_t i = 0; i < vectors.count(); ++i) inputs.push_back({{x[1]}});
  cases.push_back(
      {"group_norm", to_string(x) + std::to_string(groups) + "affine" + std::to_string(static_cast<int>(affine)),
       inputs,
       [=](const Tensors& t) { return group_norm(t[0], groups, vectors.gamma(t), vectors.beta(t), kNormEpsilon); },
       [=](const Arrays& t) {
         const std::int64_t length = x[0] == 0 ? 1 : x.product() / x[0] / groups;
         return vectors.apply(standardized(t[0], length), t, along);
       },
       floats(), 1 + vectors.count(), 16});
}

}  // namespace

std::vector<OpCase> sample_normalization_cases() {
  std::vector<OpCase> cases;
  const std::vector<std::pair<Shape, int>> layers = {{{5}, 1},      {{4, 7}, 1}, {{2, 3, 4}, 2}, {{2, 3, 4, 5}, 3},
                                                     {{50, 65}, 1}, {{3, 1}, 1}, {{0, 4}, 1},    {{2, 2, 700}, 1}};
  const std::vector<std::pair<Shape, std::int64_t>> groups = {
      {{2, 4}, 2},       {{3, 6, 5}, 3},       {{2, 4, 3, 5}, 2},    {{2, 4, 3, 5}, 4}, {{2, 4, 3, 5}, 1},
      {{1, 6, 9, 9}, 2}, {{2, 4, 2, 3, 2}, 2}, {{2, 32, 20, 33}, 4}, {{0, 4, 3, 3}, 2}, {{2, 3, 1, 1}, 1}};
  for (const Affine affine : {Affine::both, Affine::none, Affine::gamma, Affine::beta}) {
    for (const auto& [x, axes] : layers) add_layer_norm(cases, x, axes, affine);
    for (const auto& [x, count] : groups) add_group_norm(cases, x, count, affine);
  }
  return cases;
}

}  // namespace ferry::test
