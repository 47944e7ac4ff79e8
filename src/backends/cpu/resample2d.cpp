#include "src/backends/cpu/resample2d.h"

#include <algorithm>
#include <cmath>

#include "src/backends/cpu/convolution.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/parallel.h"
#include "src/ops/convolution.h"

namespace ferry::cpu_backend {
namespace {

using ops::AdaptivePool2dAttributes;
using ops::Upsample2dAttributes;

constexpr std::int64_t kGrain = 16384;  // elements read or written a task

void add_output(AxisMap& map, std::int64_t first, std::initializer_list<double> weights) {
  map.first.push_back(first);
  map.weight.insert(map.weight.end(), weights);
  map.begin.push_back(static_cast<std::int64_t>(map.weight.size()));
}

AxisMap nearest_map(std::int64_t inputs, std::int64_t outputs, double ratio) {
  AxisMap map;
  for (std::int64_t o = 0; o < outputs; ++o) {
    const auto at = static_cast<std::int64_t>(std::floor(static_cast<double>(o) * ratio));
    add_output(map, std::min(at, inputs - 1), {1.0});
  }
  return map;
}

AxisMap linear_map(std::int64_t inputs, std::int64_t outputs, double ratio, bool align_corners) {
  AxisMap map;
  const double step = outputs > 1 ? static_cast<double>(inputs - 1) / static_cast<double>(outputs - 1) : 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    const auto output = static_cast<double>(o);
    const double place = align_corners ? output * step : std::max(0.0, (output + 0.5) * ratio - 0.5);
    const std::int64_t first = std::min(static_cast<std::int64_t>(place), inputs - 1);
    const double rest = place - static_cast<double>(first);
    // Never a weight of 0, which would make NaN of an infinite neighbour.
    if (first + 1 < inputs && rest > 0) {
      add_output(map, first, {1 - rest, rest});
    } else {
      add_output(map, first, {1.0});
    }
  }
  return map;
}

AxisMap mean_map(std::int64_t inputs, std::int64_t outputs) {
  AxisMap map;
  for (std::int64_t o = 0; o < outputs; ++o) {
    const std::int64_t first = o * inputs / outputs, last = ((o + 1) * inputs + outputs - 1) / outputs;
    map.first.push_back(first);
    map.weight.insert(map.weight.end(), static_cast<std::size_t>(last - first), 1 / static_cast<double>(last - first));
    map.begin.push_back(static_cast<std::int64_t>(map.weight.size()));
  }
  return map;
}

// The map of the gradient. Windows of a map move on with o, so that the outputs which read an input are neighbours.
AxisMap transposed(const AxisMap& map, std::int64_t inputs) {
  AxisMap result;
  std::int64_t from = 0;  // the first output that may read the input
  for (std::int64_t i = 0; i < inputs; ++i) {
    const auto count = [&](std::int64_t o) {
      return map.begin[static_cast<std::size_t>(o + 1)] - map.begin[static_cast<std::size_t>(o)];
    };
    const auto first = [&](std::int64_t o) { return map.first[static_cast<std::size_t>(o)]; };
    while (from < map.outputs() && first(from) + count(from) <= i) ++from;
    result.first.push_back(std::min(from, map.outputs() - 1));
    for (std::int64_t o = from; o < map.outputs() && first(o) <= i; ++o) {
      result.weight.push_back(
          map.weight[static_cast<std::size_t>(map.begin[static_cast<std::size_t>(o)] + i - first(o))]);
    }
    result.begin.push_back(static_cast<std::int64_t>(result.weight.size()));
  }
  return result;
}

AxisMap axis_map(const Upsample2dAttributes& a, std::int64_t inputs, std::int64_t outputs, int i) {
  if (a.mode == UpsampleMode::nearest) return nearest_map(inputs, outputs, a.ratio[i]);
  return linear_map(inputs, outputs, a.ratio[i], a.align_corners);
}
AxisMap axis_map(const AdaptivePool2dAttributes&, std::int64_t inputs, std::int64_t outputs, int) {
  return mean_map(inputs, outputs);
}

// y = x under the two maps. Requires: x and y are images.
void resample(const KernelContext& context, const AxisMap& h, const AxisMap& w) {
  TensorView x = context.in(0), y = context.out();
  if (y.numel() == 0) return;
  const ResampleLoop loop = resample_loop(y.dtype);
  y.strides = image_strides(context.op, y);
  x = in_order_of(context.op, x, y, dnn::Buffer::operand);
  const bool channels_last = is_channels_last(x) && is_channels_last(y);
  const std::int64_t lanes = channels_last ? x.shape[1] : 1;
  const std::int64_t channels = channels_last ? 1 : x.shape[1], rows = y.shape[2];
  const std::int64_t size = size_of(y.dtype), work = (x.shape[3] + y.shape[3]) * lanes;
  parallel_for(x.shape[0] * channels * rows, std::max<std::int64_t>(1, kGrain / work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = i % rows, c = i / rows % channels, n = i / rows / channels;
                   loop({.h = h,
                         .w = w,
                         .row = row,
                         .lanes = lanes,
                         .elements = x.shape[3] * lanes,
                         .x = x.as<std::byte>() + (n * x.strides[0] + c * x.strides[1]) * size,
                         .x_row = x.strides[2],
                         .y = y.as<std::byte>() + (n * y.strides[0] + c * y.strides[1] + row * y.strides[2]) * size});
                 }
               });
}

template <class A>
void forward(const KernelContext& context) {
  const auto& a = context.attributes.as<A>();
  const Shape &x = context.in(0).shape, &y = context.out().shape;
  resample(context, axis_map(a, x[2], y[2], 0), axis_map(a, x[3], y[3], 1));
}

template <class A>
void backward(const KernelContext& context) {
  const auto& a = context.attributes.as<A>();
  const Shape &y = context.in(0).shape, &x = context.out().shape;
  resample(context, transposed(axis_map(a, x[2], y[2], 0), x[2]), transposed(axis_map(a, x[3], y[3], 1), x[3]));
}

}  // namespace

void upsample2d(const KernelContext& context) { forward<Upsample2dAttributes>(context); }
void upsample2d_backward(const KernelContext& context) { backward<Upsample2dAttributes>(context); }
void adaptive_avg_pool2d(const KernelContext& context) { forward<AdaptivePool2dAttributes>(context); }
void adaptive_avg_pool2d_backward(const KernelContext& context) { backward<AdaptivePool2dAttributes>(context); }

}  // namespace ferry::cpu_backend
