// References of transposed convolution and resampling.
#include <algorithm>
#include <cmath>

#include "tests/support/references.h"

namespace ferry::test {
namespace {

// Position in [0, extent) that element i of a resampled axis is read from.
double sampled_place(std::int64_t i, std::int64_t extent, std::int64_t size, double ratio,
                     const Upsample2dOptions& options) {
  const auto at = static_cast<double>(i);
  if (options.mode == UpsampleMode::nearest) return std::min(std::floor(at * ratio), static_cast<double>(extent - 1));
  if (!options.align_corners) return std::max(0.0, (at + 0.5) * ratio - 0.5);
  return size == 1 ? 0.0 : at * static_cast<double>(extent - 1) / static_cast<double>(size - 1);
}

}  // namespace

Array conv_transpose2d(const Array& x, const Array& weight, const Array* bias, const ConvTranspose2dOptions& o) {
  const std::int64_t inputs = weight.shape[0] / o.groups, outputs = weight.shape[1];
  Shape shape{x.shape[0], outputs * o.groups, 0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::size_t a = axis_of(i);
    shape[2 + i] = (x.shape[2 + i] - 1) * o.stride[a] - 2 * o.padding[a] + o.dilation[a] * (weight.shape[2 + i] - 1) +
                   o.output_padding[a] + 1;
  }
  Array y = Array::filled(shape, 0);
  for_each_index(x.shape, [&](const Dims& at) {
    for_each_index({outputs, weight.shape[2], weight.shape[3]}, [&](const Dims& k) {
      const std::int64_t row = at[2] * o.stride[0] - o.padding[0] + k[1] * o.dilation[0];
      const std::int64_t column = at[3] * o.stride[1] - o.padding[1] + k[2] * o.dilation[1];
      if (row < 0 || row >= shape[2] || column < 0 || column >= shape[3]) return;
      const std::int64_t channel = at[1] / inputs * outputs + k[0];
      y.at({at[0], channel, row, column}) += x.at(at) * weight.at({at[1], k[0], k[1], k[2]});
    });
  });
  if (bias != nullptr) for_each_index(shape, [&](const Dims& at) { y.at(at) += bias->at({at[1]}); });
  return y;
}

Array upsample2d(const Array& x, const Upsample2dOptions& options) {
  Shape shape = x.shape;
  double ratio[2];
  for (int i = 0; i < 2; ++i) {
    const std::int64_t size = options.size[axis_of(i)];
    const auto extent = static_cast<double>(x.shape[2 + i]);
    shape[2 + i] = size > 0 ? size : static_cast<std::int64_t>(std::floor(extent * options.scale[axis_of(i)]));
    ratio[i] = size > 0 ? extent / static_cast<double>(size) : 1 / options.scale[axis_of(i)];
  }
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& at) {
    std::int64_t first[2];
    double rest[2];
    for (int i = 0; i < 2; ++i) {
      const double place = sampled_place(at[2 + i], x.shape[2 + i], shape[2 + i], ratio[i], options);
      first[i] = static_cast<std::int64_t>(place);
      rest[i] = place - std::floor(place);
    }
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t c = 0; c < 2; ++c) {
        const double weight = (r == 0 ? 1 - rest[0] : rest[0]) * (c == 0 ? 1 - rest[1] : rest[1]);
        const std::int64_t row = std::min(first[0] + r, x.shape[2] - 1),
                           column = std::min(first[1] + c, x.shape[3] - 1);
        y.at(at) += weight * x.at({at[0], at[1], row, column});
      }
    }
  });
  return y;
}

Array adaptive_avg_pool2d(const Array& x, const std::array<std::int64_t, 2>& output) {
  Array y = Array::filled({x.shape[0], x.shape[1], output[0], output[1]}, 0);
  for_each_index(y.shape, [&](const Dims& at) {
    std::int64_t first[2], last[2];
    for (int i = 0; i < 2; ++i) {
      const std::int64_t extent = x.shape[2 + i], size = output[axis_of(i)];
      first[i] = at[2 + i] * extent / size;
      last[i] = ((at[2 + i] + 1) * extent + size - 1) / size;
    }
    for (std::int64_t r = first[0]; r < last[0]; ++r) {
      for (std::int64_t c = first[1]; c < last[1]; ++c) y.at(at) += x.at({at[0], at[1], r, c});
    }
    y.at(at) /= static_cast<double>((last[0] - first[0]) * (last[1] - first[1]));
  });
  return y;
}

}  // namespace ferry::test
