// References of convolutions, pooling, normalisation, losses and embeddings.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/references.h"

namespace ferry::test {
namespace {

// Extent of the result along image axis 0 (height) or 1 (width).
std::int64_t positions(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - window) / stride + 1;
}

Array pooled(const Array& x, const Pool2dOptions& options, bool maximum) {
  Shape shape = x.shape;
  for (int i = 0; i < 2; ++i) {
    shape[2 + i] =
        positions(x.shape[2 + i], options.kernel[axis_of(i)], options.stride[axis_of(i)], options.padding[axis_of(i)]);
  }
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& at) {
    double total = 0, best = -std::numeric_limits<double>::infinity(), inside = 0;
    for (std::int64_t r = 0; r < options.kernel[0]; ++r) {
      for (std::int64_t c = 0; c < options.kernel[1]; ++c) {
        const std::int64_t row = at[2] * options.stride[0] + r - options.padding[0];
        const std::int64_t column = at[3] * options.stride[1] + c - options.padding[1];
        if (row < 0 || row >= x.shape[2] || column < 0 || column >= x.shape[3]) continue;
        const double value = x.at({at[0], at[1], row, column});
        total += value;
        best = std::max(best, value);
        inside += 1;
      }
    }
    const auto whole = static_cast<double>(options.kernel[0] * options.kernel[1]);
    y.at(at) = maximum ? best : total / (options.count_include_pad ? whole : inside);
  });
  return y;
}

}  // namespace

Array conv2d(const Array& x, const Array& weight, const Array* bias, const Conv2dOptions& options) {
  Shape shape{x.shape[0], weight.shape[0], 0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t window = options.dilation[axis_of(i)] * (weight.shape[2 + i] - 1) + 1;
    shape[2 + i] = positions(x.shape[2 + i], window, options.stride[axis_of(i)], options.padding[axis_of(i)]);
  }
  const std::int64_t inputs = weight.shape[1], outputs = weight.shape[0] / options.groups;
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& at) {
    double total = bias == nullptr ? 0 : bias->values[static_cast<std::size_t>(at[1])];
    for_each_index({inputs, weight.shape[2], weight.shape[3]}, [&](const Dims& k) {
      const std::int64_t row = at[2] * options.stride[0] + k[1] * options.dilation[0] - options.padding[0];
      const std::int64_t column = at[3] * options.stride[1] + k[2] * options.dilation[1] - options.padding[1];
      if (row < 0 || row >= x.shape[2] || column < 0 || column >= x.shape[3]) return;
      const std::int64_t channel = at[1] / outputs * inputs + k[0];
      total += x.at({at[0], channel, row, column}) * weight.at({at[1], k[0], k[1], k[2]});
    });
    y.at(at) = total;
  });
  return y;
}

Array max_pool2d(const Array& x, const Pool2dOptions& options) { return pooled(x, options, true); }
Array avg_pool2d(const Array& x, const Pool2dOptions& options) { return pooled(x, options, false); }

std::array<Array, 2> channel_statistics(const Array& x) {
  const Shape channels{x.shape[1]};
  Array mean = Array::filled(channels, 0), variance = Array::filled(channels, 0);
  const auto count = static_cast<double>(x.shape.product()) / static_cast<double>(x.shape[1]);
  for_each_index(x.shape, [&](const Dims& at) { mean.at({at[1]}) += x.at(at) / count; });
  for_each_index(x.shape, [&](const Dims& at) {
    const double distance = x.at(at) - mean.at({at[1]});
    variance.at({at[1]}) += distance * distance / count;
  });
  return {mean, variance};
}

Array normalized(const Array& x, const Array& mean, const Array& variance, const Array* gamma, const Array* beta,
                 double epsilon) {
  Array y = x;
  for_each_index(x.shape, [&](const Dims& at) {
    const Dims channel{at[1]};
    const double unit = (x.at(at) - mean.at(channel)) / std::sqrt(variance.at(channel) + epsilon);
    y.at(at) = unit * (gamma == nullptr ? 1 : gamma->at(channel)) + (beta == nullptr ? 0 : beta->at(channel));
  });
  return y;
}

Array l2_normalized(const Array& x, int axis, double epsilon) {
  const Array squares = map(x, [](double v) { return v * v; });
  const Array norms = map(reduced(squares, {axis}, true, Reducer::sum),
                          [epsilon](double v) { return std::max(std::sqrt(v), epsilon); });
  return map(x, norms, [](double a, double b) { return a / b; });
}

Array cross_entropy(const Array& logits, const Array& labels) {
  Array loss = Array::filled(labels.shape, 0);
  for (std::int64_t row = 0; row < logits.shape[0]; ++row) {
    double best = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t c = 0; c < logits.shape[1]; ++c) best = std::max(best, logits.at({row, c}));
    for (std::int64_t c = 0; c < logits.shape[1]; ++c) total += std::exp(logits.at({row, c}) - best);
    const auto label = static_cast<std::int64_t>(labels.at({row}));
    loss.at({row}) = best + std::log(total) - logits.at({row, label});
  }
  return loss;
}

Array embedding(const Array& table, const Array& ids) {
  Shape shape = ids.shape;
  shape.push_back(table.shape[1]);
  Array y{shape, {}};
  for (const double id : ids.values) {
    for (std::int64_t d = 0; d < table.shape[1]; ++d) y.values.push_back(table.at({static_cast<std::int64_t>(id), d}));
  }
  return y;
}

Array embedding_bag(const Array& table, const Array& ids, const Array& offsets, bool mean) {
  const std::size_t bags = offsets.values.size();
  Array y = Array::filled({static_cast<std::int64_t>(bags), table.shape[1]}, 0);
  for (std::size_t b = 0; b < bags; ++b) {
    const auto first = static_cast<std::size_t>(offsets.values[b]);
    const std::size_t last = b + 1 < bags ? static_cast<std::size_t>(offsets.values[b + 1]) : ids.values.size();
    for (std::size_t i = first; i < last; ++i) {
      for (std::int64_t d = 0; d < table.shape[1]; ++d) {
        const double value = table.at({static_cast<std::int64_t>(ids.values[i]), d});
        y.at({static_cast<std::int64_t>(b), d}) += mean ? value / static_cast<double>(last - first) : value;
      }
    }
  }
  return y;
}

}  // namespace ferry::test
