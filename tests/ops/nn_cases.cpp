#include <algorithm>

#include "src/ops/attributes.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

struct Convolution {
  Shape x, weight;
  Conv2dOptions options;
};

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> kConvolutions = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {{2, 3, 7, 6}, {4, 3, 3, 3}, {}},
      {{2, 3, 7, 6}, {4, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 4, 9, 8}, {6, 4, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
      {{1, 2, 9, 9}, {3, 2, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
      {{2, 4, 5, 5}, {6, 2, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {{1, 3, 6, 6}, {3, 1, 3, 3}, {.padding = {1, 1}, .groups = 3}},
      {{2, 5, 4, 4}, {7, 5, 1, 1}, {}},
      {{1, 16, 8, 8}, {16, 16, 3, 3}, {.padding = {1, 1}}},
      {{0, 3, 7, 6}, {4, 3, 3, 3}, {}},
  };
  return kConvolutions;
}

std::string text(const Convolution& convolution) {
  return to_string(convolution.x) + to_string(convolution.weight) + "s" +
         std::to_string(convolution.options.stride[0]) + "p" + std::to_string(convolution.options.padding[0]) + "g" +
         std::to_string(convolution.options.groups);
}

void add_pools(std::vector<OpCase>& cases) {
  struct Pool {
    Shape x;
    Pool2dOptions options;
  };
  const std::vector<Pool> pools = {
      {{1, 1, 2, 2}, {}},
      {{2, 3, 6, 8}, {}},
      {{2, 3, 7, 5}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}},
      {{2, 3, 7, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false}},
      {{1, 2, 20, 20}, {.kernel = {17, 17}, .stride = {1, 1}}},
      {{0, 2, 4, 4}, {}},
  };
  for (const Pool& pool : pools) {
    const std::string variant = to_string(pool.x) + "k" + std::to_string(pool.options.kernel[0]) + "p" +
                                std::to_string(pool.options.padding[0]) +
                                (pool.options.count_include_pad ? "" : "inside");
    cases.push_back({"max_pool2d",
                     variant,
                     {{pool.x}},
                     [options = pool.options](const Tensors& x) { return max_pool2d(x[0], options); },
                     [options = pool.options](const Arrays& x) { return max_pool2d(x[0], options); },
                     floats(),
                     1});
    cases.push_back({"avg_pool2d",
                     variant,
                     {{pool.x}},
                     [options = pool.options](const Tensors& x) { return avg_pool2d(x[0], options); },
                     [options = pool.options](const Arrays& x) { return avg_pool2d(x[0], options); },
                     floats(),
                     1});
  }
}

constexpr double kEpsilon = 1e-3;

const Array* given(const Arrays& x, bool affine, std::size_t i) { return affine ? &x[i] : nullptr; }
Tensor given(const Tensors& x, bool affine, std::size_t i) { return affine ? x[i] : Tensor(); }

void add_batch_norm(std::vector<OpCase>& cases, const Shape& x, bool affine) {
  const Shape channels{x[1]};
  const std::string variant = to_string(x) + (affine ? "" : "plain");
  std::vector<Input> inputs{{x}};
  if (affine) inputs.insert(inputs.end(), {{channels}, {channels}});
  cases.push_back({"batch_norm", variant, inputs,
                   [affine](const Tensors& t) {
                     return batch_norm(t[0], given(t, affine, 1), given(t, affine, 2), {}, {}, {.epsilon = kEpsilon});
                   },
                   [affine](const Arrays& t) {
                     const auto [mean, variance] = channel_statistics(t[0]);
                     return normalized(t[0], mean, variance, given(t, affine, 1), given(t, affine, 2), kEpsilon);
                   },
                   floats(), affine ? 3u : 1u, 16});
  const std::size_t first = affine ? 3 : 1;
  inputs.insert(inputs.end(), {{channels}, {channels, 0.5, 2}});
  cases.push_back({"batch_norm_inference", variant, inputs,
                   [=](const Tensors& t) {
                     return batch_norm(t[0], given(t, affine, 1), given(t, affine, 2), t[first], t[first + 1],
                                       {.training = false, .epsilon = kEpsilon});
                   },
                   [=](const Arrays& t) {
                     return normalized(t[0], t[first], t[first + 1], given(t, affine, 1), given(t, affine, 2),
                                       kEpsilon);
                   },
                   floats(), affine ? 3u : 1u, 16});
}

// No public function ends in it: memory budgets call it.
Tensor batch_norm_applied(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                          const Tensor& inverse_std, bool is_relu) {
  const Strides strides = x.rank() == 4 ? ops::image_strides(x, x.shape()) : contiguous_strides(x.shape());
  return ops::invoke(ops::kBatchNormApply, {&x, &gamma, &beta, &mean, &inverse_std},
                     ops::BatchNormApplyAttributes{.strides = strides, .relu = is_relu}, ops::Where::current());
}

// Whether each element is the one that batch_norm gave with the statistics.
Tensor is_batch_norm_again(const Tensor& x, const Tensor& gamma, const Tensor& beta, bool is_relu) {
  Tensor outputs[3];
  const Tensor* inputs[] = {&x, &gamma, &beta};
  ops::invoke(ops::kBatchNorm, inputs, ops::BatchNormAttributes{kEpsilon}, ops::Where::current(), outputs);
  const auto& [y, mean, inverse_std] = outputs;
  return equal(batch_norm_applied(x, gamma, beta, mean, inverse_std, is_relu), is_relu ? relu(y) : y);
}

void add_batch_norm_apply(std::vector<OpCase>& cases, const Shape& x, bool affine, bool is_relu) {
  const Shape channels{x[1]};
  const std::string variant = to_string(x) + (affine ? "" : "plain") + (is_relu ? "relu" : "");
  std::vector<Input> inputs{{x}};
  if (affine) inputs.insert(inputs.end(), {{channels}, {channels}});
  const std::size_t first = inputs.size();
  cases.push_back(
      {"batch_norm_apply", variant + "again", inputs,
       [=](const Tensors& t) { return is_batch_norm_again(t[0], given(t, affine, 1), given(t, affine, 2), is_relu); },
       [](const Arrays& t) { return map(t[0], [](double) { return 1.0; }); }, floats(), 0});
  inputs.insert(inputs.end(), {{channels}, {channels, 0.5, 2}});
  cases.push_back({"batch_norm_apply", variant, inputs,
                   [=](const Tensors& t) {
                     return batch_norm_applied(t[0], given(t, affine, 1), given(t, affine, 2), t[first], t[first + 1],
                                               is_relu);
                   },
                   [=](const Arrays& t) {
                     const Array variance = map(t[first + 1], [](double s) { return 1 / (s * s); });
                     const Array y = normalized(t[0], t[first], variance, given(t, affine, 1), given(t, affine, 2), 0);
                     return is_relu ? map(y, [](double v) { return std::max(v, 0.0); }) : y;
                   },
                   floats(), 0, 16});
}

}  // namespace

std::vector<OpCase> image_cases() {
  std::vector<OpCase> cases;
  for (const Convolution& each : convolutions()) {
    const Conv2dOptions options = each.options;
    cases.push_back({"conv2d",
                     text(each),
                     {{each.x}, {each.weight}, {{each.weight[0]}}},
                     [options](const Tensors& t) { return conv2d(t[0], t[1], t[2], options); },
                     [options](const Arrays& t) { return conv2d(t[0], t[1], &t[2], options); },
                     floats(),
                     3,
                     100});
    cases.push_back({"conv2d",
                     text(each) + "no_bias",
                     {{each.x}, {each.weight}},
                     [options](const Tensors& t) { return conv2d(t[0], t[1], {}, options); },
                     [options](const Arrays& t) { return conv2d(t[0], t[1], nullptr, options); },
                     floats(),
                     2,
                     100});
  }
  add_pools(cases);
  return cases;
}

std::vector<OpCase> normalization_cases() {
  std::vector<OpCase> cases;
  const std::vector<Shape> shapes = {{4, 3}, {2, 3, 4, 5}, {1, 1, 3, 3}, {5, 17}};
  for (const Shape& shape : shapes) {
    for (const bool affine : {true, false}) {
      add_batch_norm(cases, shape, affine);
      for (const bool is_relu : {false, true}) add_batch_norm_apply(cases, shape, affine, is_relu);
    }
  }
  const std::vector<std::pair<Shape, int>> normalizations = {{{5}, 0},        {{3, 4}, 1},       {{3, 4}, 0},
                                                             {{2, 3, 4}, -2}, {{2, 3, 4, 5}, 1}, {{0, 4}, 1}};
  for (const auto& [shape, axis] : normalizations) {
    const int rank = shape.rank(), at = axis;
    cases.push_back({"l2_normalize",
                     to_string(shape) + std::to_string(axis),
                     {{shape}},
                     [at](const Tensors& t) { return l2_normalize(t[0], at); },
                     [=](const Arrays& t) { return l2_normalized(t[0], at < 0 ? at + rank : at, 1e-12); },
                     floats(),
                     1});
  }
  return cases;
}

std::vector<OpCase> lookup_cases() {
  std::vector<OpCase> cases;
  for (const DType type : {DType::i64, DType::i32}) {
    const std::string of(name_of(type));
    const std::vector<Shape> logits = {{1, 1}, {5, 7}, {17, 130}};
    for (const Shape& shape : logits) {
      cases.push_back({"softmax_cross_entropy",
                       to_string(shape) + of,
                       {{shape, -4, 4}, ids({shape[0]}, shape[1], type)},
                       [](const Tensors& t) { return softmax_cross_entropy(t[0], t[1], Reduction::none); },
                       [](const Arrays& t) { return cross_entropy(t[0], t[1]); },
                       floats(),
                       1,
                       16});
      cases.push_back({"softmax_cross_entropy",
                       to_string(shape) + of + "mean",
                       {{shape, -4, 4}, ids({shape[0]}, shape[1], type)},
                       [](const Tensors& t) { return softmax_cross_entropy(t[0], t[1]); },
                       [](const Arrays& t) { return reduced(cross_entropy(t[0], t[1]), {}, false, Reducer::mean); },
                       floats(),
                       1,
                       16});
    }
    const std::vector<Shape> id_shapes = {{}, {0}, {6}, {2, 3}, {40}};
    for (const Shape& shape : id_shapes) {
      for (const GradientKind kind : {GradientKind::dense, GradientKind::row_sparse}) {
        cases.push_back({"embedding",
                         to_string(shape) + of + (kind == GradientKind::dense ? "" : "rows"),
                         {{{5, 3}}, ids(shape, 5, type)},
                         [kind](const Tensors& t) { return embedding(t[0], t[1], kind); },
                         [](const Arrays& t) { return embedding(t[0], t[1]); },
                         floats(),
                         1});
      }
    }
    for (const BagMode mode : {BagMode::sum, BagMode::mean}) {
      for (const GradientKind kind : {GradientKind::dense, GradientKind::row_sparse}) {
        const std::string variant =
            of + (mode == BagMode::sum ? "sum" : "mean") + (kind == GradientKind::dense ? "" : "rows");
        const auto call = [=](const Tensors& t) { return embedding_bag(t[0], t[1], t[2], mode, kind); };
        const auto reference = [=](const Arrays& t) { return embedding_bag(t[0], t[1], t[2], mode == BagMode::mean); };
        // Duplicates, an empty bag in the middle and one at the end.
        cases.push_back({"embedding_bag",
                         variant,
                         {{{6, 4}}, fixed_ids({1, 1, 5, 0, 1}, type), fixed_ids({0, 3, 3, 5}, type)},
                         call,
                         reference,
                         floats(),
                         1,
                         16});
        cases.push_back({"embedding_bag",
                         variant + "no_ids",
                         {{{6, 4}}, fixed_ids({}, type), fixed_ids({0, 0}, type)},
                         call,
                         reference,
                         floats(),
                         1,
                         16});
      }
    }
  }
  return cases;
}

}  // namespace ferry::test
