// Cases of attention.
#include <ferry/attention.h>

#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Heads {
  Shape q, k, v;
  std::optional<Input> mask{};
  bool causal = false;
  std::optional<double> scale{};
  std::string name{};
};

Dims with(const Dims& leading, std::int64_t row, std::int64_t column) {
  Dims index = leading;
  index.push_back(row);
  index.push_back(column);
  return index;
}

Shape leading_axes(const Shape& shape) {
  return Dims(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

// `x` repeated along leading axes.
Array repeated(const Array& x, const Shape& leading) {
  return expanded(x, with(leading, x.shape[x.shape.rank() - 2], x.shape.back()));
}

// A query's weights of all keys; no key: zeros.
std::vector<double> softmax_of(const std::vector<double>& scores) {
  double largest = -kInfinity, sum = 0;
  for (const double score : scores) largest = std::max(largest, score);
  std::vector<double> weights(scores.size(), 0);
  if (largest == -kInfinity) return weights;
  for (std::size_t i = 0; i < scores.size(); ++i) sum += weights[i] = std::exp(scores[i] - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// mask: null for none; bool where `additive` is false.
Array attention(const Heads& heads, const Shape& leading, const Arrays& x, const Array* mask, bool additive) {
  const Array q = repeated(x[0], leading), k = repeated(x[1], leading), v = repeated(x[2], leading);
  const std::int64_t rows = q.shape[leading.rank()], keys = k.shape[leading.rank()], depth = q.shape.back();
  const Array allowed = mask == nullptr ? Array{} : expanded(*mask, with(leading, rows, keys));
  const double scale = heads.scale.value_or(1 / std::sqrt(static_cast<double>(depth)));
  Array y = Array::filled(with(leading, rows, v.shape.back()), 0);
  for_each_index(leading, [&](const Dims& head) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<double> scores(static_cast<std::size_t>(keys), 0);
      for (std::int64_t j = 0; j < keys; ++j) {
        double& score = scores[static_cast<std::size_t>(j)];
        for (std::int64_t d = 0; d < depth; ++d) score += scale * q.at(with(head, i, d)) * k.at(with(head, j, d));
        if (heads.causal && j > i) score = -kInfinity;
        if (mask == nullptr) continue;
        const double value = allowed.at(with(head, i, j));
        score = additive ? score + value : value != 0 ? score : -kInfinity;
      }
      const std::vector<double> weights = softmax_of(scores);
      for (std::int64_t j = 0; j < keys; ++j) {
        for (std::int64_t d = 0; d < v.shape.back(); ++d) {
          y.at(with(head, i, d)) += weights[static_cast<std::size_t>(j)] * v.at(with(head, j, d));
        }
      }
    }
  });
  return y;
}

Shape common_leading(const Heads& heads) {
  Shape leading = leading_axes(heads.q);
  for (const Shape* shape : {&heads.k, &heads.v}) {
    for (int i = 0; i < leading.rank(); ++i) leading[i] = std::max(leading[i], (*shape)[i]);
  }
  return leading;
}

OpCase attention_case(const Heads& heads) {
  const bool masked = heads.mask.has_value();
  const bool additive = masked && heads.mask->dtype != DType::boolean;
  std::vector<Input> inputs{{heads.q}, {heads.k}, {heads.v}};
  if (masked) inputs.push_back(*heads.mask);
  std::vector<DType> dtypes = floats();
  if (additive && heads.mask->dtype == DType::f32) dtypes = {DType::f32, DType::f16, DType::bf16};
  return {
      "scaled_dot_product_attention",
      to_string(heads.q) + to_string(heads.k) + (masked ? "mask" : "") + heads.name + (heads.causal ? "causal" : ""),
      inputs,
      [=](const Tensors& t) {
        return scaled_dot_product_attention(
            t[0], t[1], t[2], {.mask = masked ? t[3] : Tensor(), .causal = heads.causal, .scale = heads.scale});
      },
      [=](const Arrays& x) { return attention(heads, common_leading(heads), x, masked ? &x[3] : nullptr, additive); },
      dtypes,
      additive ? 4u : 3u,
      16};
}

// True but for the first query, and the last two keys of the second.
Input partial_mask(std::int64_t rows, std::int64_t keys) {
  std::vector<double> values(static_cast<std::size_t>(rows * keys), 1);
  for (std::int64_t j = 0; j < keys; ++j) values[static_cast<std::size_t>(j)] = 0;
  if (rows > 1) values[static_cast<std::size_t>(2 * keys - 1)] = values[static_cast<std::size_t>(2 * keys - 2)] = 0;
  return {{rows, keys}, 0, 2, DType::boolean, values};
}

}  // namespace

std::vector<OpCase> attention_cases() {
  const Input any_bool{{7, 9}, 0, 2, DType::boolean};
  // More rows and keys than a tile has; the keys no multiple of anything.
  const Shape long_q{2, 70, 5}, long_k{2, 303, 5}, long_v{2, 303, 3};
  const std::vector<Heads> all = {
      {{1, 1}, {1, 1}, {1, 1}},
      {{4, 3}, {5, 3}, {5, 2}},
      {{2, 3, 5, 4}, {2, 3, 7, 4}, {2, 3, 7, 6}},
      {{2, 3, 5, 4}, {2, 3, 7, 4}, {2, 3, 7, 6}, {}, false, 0.25, "scaled"},
      {{2, 3, 5, 4}, {2, 1, 7, 4}, {1, 3, 7, 6}, {}, false, {}, "broadcast"},
      {{2, 2, 2, 2, 6, 8}, {2, 2, 2, 2, 6, 8}, {2, 2, 2, 2, 6, 8}, {}, true},
      {{3, 6, 4}, {3, 6, 4}, {3, 6, 4}, {}, true},
      {{2, 9, 4}, {2, 4, 4}, {2, 4, 4}, {}, true},
      {{2, 4, 4}, {2, 9, 4}, {2, 9, 4}, {}, true},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, any_bool, false, {}, "bool"},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, any_bool, true, {}, "bool"},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, partial_mask(7, 9), false, {}, "empty_row"},
      {{2, 3, 7, 4}, {2, 3, 9, 4}, {2, 3, 9, 5}, Input{{2, 1, 1, 9}}, false, {}, "keys"},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, Input{{2, 7, 9}}, false, {}, "full"},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, Input{{7, 9}}, true, {}, "added"},
      {{2, 7, 4}, {2, 9, 4}, {2, 9, 5}, Input{{7, 9}, -2, 2, DType::f32}, false, {}, "f32"},
      {{40, 3, 4}, {40, 3, 4}, {40, 3, 4}},  // many heads
      {long_q, long_k, long_v},
      {long_q, long_k, long_v, Input{{70, 303}}},
      {{20, 140, 5}, {20, 140, 5}, {20, 140, 5}, {}, true},
      {{2, 5, 4}, {2, 0, 4}, {2, 0, 3}, {}, false, {}, "no_keys"},
      {{2, 0, 4}, {2, 5, 4}, {2, 5, 3}, {}, false, {}, "no_queries"},
      {{0, 5, 4}, {0, 5, 4}, {0, 5, 3}, {}, false, {}, "no_heads"},
  };
  std::vector<OpCase> cases;
  for (const Heads& heads : all) cases.push_back(attention_case(heads));
  return cases;
}

}  // namespace ferry::test
