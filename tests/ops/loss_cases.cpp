#include <cmath>

#include <ferry/losses.h>
#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

// As the header states it: logits become logarithms of probabilities first where `from_logits`.
Array reference(const Array& x, const Array& labels, const Array* weight, const CrossEntropyOptions& options,
                bool from_logits) {
  Array q = x;
  if (from_logits) {
    const Array largest = reduced(x, {1}, true, Reducer::max);
    const Array below = map(x, largest, [](double a, double b) { return a - b; });
    const Array total = reduced(map(below, [](double v) { return std::exp(v); }), {1}, true, Reducer::sum);
    q = map(below, total, [](double a, double b) { return a - std::log(b); });
  }
  Array loss = Array::filled(labels.shape, 0);
  double counted = 0;
  const auto classes = static_cast<double>(x.shape[1]);
  for_each_index(labels.shape, [&](const Dims& at) {
    const double label = labels.at(at);
    if (label == static_cast<double>(options.ignore_index)) return;
    Dims index;
    for (int i = 0; i < x.shape.rank(); ++i) index.push_back(i == 1 ? 0 : at[i < 1 ? i : i - 1]);
    const auto w = [&](std::int64_t c) { return weight == nullptr ? 1.0 : weight->at({c}); };
    for (std::int64_t c = 0; c < x.shape[1]; ++c) {
      index[1] = c;
      const double share =
          options.label_smoothing / classes + (static_cast<double>(c) == label ? 1 - options.label_smoothing : 0);
      loss.at(at) -= share * w(c) * q.at(index);
    }
    counted += w(static_cast<std::int64_t>(label));
  });
  if (options.reduction == Reduction::none) return loss;
  const double total = reduced(loss, {}, false, Reducer::sum).values[0];
  return {{}, {options.reduction == Reduction::sum ? total : total / counted}};
}

struct Loss {
  Shape x;
  CrossEntropyOptions options;
  bool weighted = false;
  DType labels = DType::i64;
};

std::string text(const Loss& loss) {
  return to_string(loss.x) + "ignore" + std::to_string(loss.options.ignore_index) + "smooth" +
         std::to_string(loss.options.label_smoothing) + (loss.weighted ? "weighted" : "") +
         std::to_string(static_cast<int>(loss.options.reduction)) + std::string(name_of(loss.labels));
}

void add_cross_entropy(std::vector<OpCase>& cases, const Loss& loss) {
  Shape positions;
  for (int i = 0; i < loss.x.rank(); ++i) {
    if (i != 1) positions.push_back(loss.x[i]);
  }
  for (const bool from_logits : {true, false}) {
    std::vector<Input> inputs{{loss.x, -4, from_logits ? 4.0 : 0.0}, ids(positions, loss.x[1], loss.labels)};
    if (loss.weighted) inputs.push_back({{loss.x[1]}, 0.25, 2});
    cases.push_back({from_logits ? "cross_entropy" : "nll_loss", text(loss), inputs,
                     [=](const Tensors& t) {
                       CrossEntropyOptions options = loss.options;
                       if (loss.weighted) options.weight = t[2];
                       return from_logits ? cross_entropy(t[0], t[1], options) : nll_loss(t[0], t[1], options);
                     },
                     [=](const Arrays& t) {
                       return reference(t[0], t[1], loss.weighted ? &t[2] : nullptr, loss.options, from_logits);
                     },
                     floats(), 1, loss.options.reduction == Reduction::sum ? 1000.0 : 40.0});
  }
}

double binary_loss(double x, double target, double weight) {
  const auto log_sigmoid = [](double v) { return -std::log1p(std::exp(-v)); };
  return -(weight * target * log_sigmoid(x) + (1 - target) * log_sigmoid(-x));
}

void add_binary(std::vector<OpCase>& cases, const Shape& shape, const std::optional<Shape>& weight,
                Reduction reduction) {
  std::vector<Input> inputs{{shape, -5, 5}, {shape, 0, 1}};
  if (weight) inputs.push_back({*weight, 0.5, 3});
  cases.push_back({"binary_cross_entropy_with_logits",
                   to_string(shape) + (weight ? to_string(*weight) : "") + std::to_string(static_cast<int>(reduction)),
                   inputs,
                   [=](const Tensors& t) {
                     return binary_cross_entropy_with_logits(t[0], t[1], weight ? t[2] : Tensor(), reduction);
                   },
                   [=](const Arrays& t) {
                     Array loss = t[0];
                     const Array weights = weight ? expanded(t[2], t[0].shape) : Array::filled(t[0].shape, 1);
                     for (std::size_t i = 0; i < loss.values.size(); ++i) {
                       loss.values[i] = binary_loss(t[0].values[i], t[1].values[i], weights.values[i]);
                     }
                     if (reduction == Reduction::none) return loss;
                     return reduced(loss, {}, false, reduction == Reduction::sum ? Reducer::sum : Reducer::mean);
                   },
                   floats(), 2, reduction == Reduction::sum ? 400.0 : 16.0});
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  const std::vector<Shape> shapes = {{1, 1}, {5, 7}, {17, 130}, {2, 3, 4}, {2, 5, 3, 70}};
  for (const Shape& x : shapes) {
    add_cross_entropy(cases, {x, {.reduction = Reduction::none}});
    add_cross_entropy(cases, {x, {.ignore_index = 1, .reduction = Reduction::none}});
    add_cross_entropy(cases, {x, {.label_smoothing = 0.1, .reduction = Reduction::none}});
    add_cross_entropy(cases, {x, {}});
    add_cross_entropy(cases, {x, {.label_smoothing = 0.3}, true, DType::i32});
    add_cross_entropy(cases, {x, {.reduction = Reduction::sum}, true});
  }
  add_cross_entropy(cases, {{5, 7}, {.ignore_index = 2, .label_smoothing = 0.2, .reduction = Reduction::none}, true});
  add_cross_entropy(cases, {{5, 7}, {.label_smoothing = 1}});
  add_cross_entropy(cases, {{0, 4}, {.reduction = Reduction::none}});
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    add_binary(cases, {5}, {}, reduction);
    add_binary(cases, {2, 3, 4}, Shape{4}, reduction);
    add_binary(cases, {3, 4}, Shape{3, 1}, reduction);
  }
  add_binary(cases, {}, {}, Reduction::none);
  add_binary(cases, {3, 700}, Shape{}, Reduction::none);
  return cases;
}

}  // namespace ferry::test
