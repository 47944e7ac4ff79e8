#include "src/backends/cpu/conv2d_depthwise.h"

#include <algorithm>

#include "src/backends/cpu/conv2d.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/parallel.h"

namespace ferry::cpu_backend {
namespace {

// Stretches of images whose sums are kept apart: fixed, so that the result does not depend on the number of threads.
constexpr std::int64_t kStretches = 16;
constexpr std::int64_t kGrain = 32768;  // products a task

DepthwiseAxis axis_of(const Conv2dArguments& p, int i) {
  const ops::Conv2dAttributes& a = p.attributes;
  return {p.x.shape[i + 2], p.y.shape[i + 2], p.w.shape[i + 2], a.stride[i], a.padding[i], a.dilation[i]};
}

std::size_t padded_bytes(const TensorView& view) {
  constexpr std::int64_t kAlignment = 64;
  const std::int64_t bytes = view.numel() * size_of(view.dtype);
  return static_cast<std::size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// The image in channels-last order, in `place` if it has another one.
TensorView ordered(const TensorView& image, std::byte* place) {
  TensorView view = image;
  view.strides = channels_last_strides(image.shape);
  if (!is_channels_last(image)) view.data = place;
  return view;
}

// w [C, 1, KH, KW] as f32 [KH, KW, C]: a view of `data` with w's shape.
TensorView taps(const TensorView& w, float* data) {
  TensorView view = w;
  view.data = data;
  view.dtype = DType::f32;
  view.strides = {1, 0, w.shape[3] * w.shape[0], w.shape[0]};
  return view;
}

void backward_input(std::string_view op, const Conv2dArguments& p, const TensorView& dy, const TensorView& dx) {
  const DepthwiseLoops& loops = depthwise_loops(dx.dtype);
  const DepthwiseAxis h = axis_of(p, 0), w = axis_of(p, 1);
  const std::int64_t channels = dx.shape[1], size = size_of(dx.dtype);
  std::vector<float> weight(static_cast<std::size_t>(p.w.numel()));
  convert(op, p.w, taps(p.w, weight.data()));
  std::vector<std::int64_t> columns;
  for (std::int64_t at = 0; at < w.input; ++at) {
    for (std::int64_t k = 0; k < w.kernel; ++k) columns.push_back(w.target(at, k));
  }
  const std::int64_t products = channels * w.input * h.kernel * w.kernel;
  parallel_for(dx.shape[0] * h.input, std::max<std::int64_t>(1, kGrain / products),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t n = i / h.input;
                   loops.input_row({.h = h,
                                    .w = w,
                                    .channels = channels,
                                    .row = i % h.input,
                                    .columns = columns.data(),
                                    .weight = weight.data(),
                                    .dy = dy.as<std::byte>() + n * dy.strides[0] * size,
                                    .dx = dx.as<std::byte>() + i * w.input * channels * size});
                 }
               });
}

void backward_weight(std::string_view op, const Conv2dArguments& p, const TensorView& x, const TensorView& dy) {
  const DepthwiseLoops& loops = depthwise_loops(x.dtype);
  const DepthwiseAxis h = axis_of(p, 0), w = axis_of(p, 1);
  const std::int64_t images = x.shape[0], channels = x.shape[1], size = size_of(x.dtype), taken = p.w.numel();
  const std::int64_t stretch = (images + kStretches - 1) / kStretches, stretches = (images + stretch - 1) / stretch;
  const auto sums_size = static_cast<std::size_t>(taken + channels);
  std::vector<float> sums(static_cast<std::size_t>(stretches) * sums_size);
  parallel_for(stretches, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      float* const weight = sums.data() + static_cast<std::size_t>(s) * sums_size;
      loops.weight_sum({.h = h,
                        .w = w,
                        .channels = channels,
                        .images = std::min(stretch, images - s * stretch),
                        .x = x.as<std::byte>() + s * stretch * x.strides[0] * size,
                        .dy = dy.as<std::byte>() + s * stretch * dy.strides[0] * size,
                        .weight = weight,
                        .bias = p.bias.given ? weight + taken : nullptr});
    }
  });
  for (std::size_t s = 1; s < static_cast<std::size_t>(stretches); ++s) {
    for (std::size_t i = 0; i < sums_size; ++i) sums[i] += sums[s * sums_size + i];
  }
  convert(op, taps(p.w, sums.data()), p.w);
  if (!p.bias.given) return;
  TensorView bias = p.bias;
  bias.data = sums.data() + taken;
  bias.dtype = DType::f32;
  bias.strides = {1};
  convert(op, bias, p.bias);
}

}  // namespace

bool is_depthwise(const Conv2dArguments& p) {
  const std::int64_t groups = p.attributes.groups;
  return groups > 1 && groups == p.x.shape[1] && groups == p.y.shape[1];
}

void conv2d_depthwise(std::string_view op, const Conv2dArguments& p) {
  std::byte* const buffer = dnn::work_buffer(dnn::Buffer::operand, padded_bytes(p.x) + padded_bytes(p.y));
  const TensorView x = ordered(p.x, buffer), y = ordered(p.y, buffer + padded_bytes(p.x));
  if (y.data != p.y.data) convert(op, p.y, y);
  if (p.product == Conv2dProduct::backward_input) {
    backward_input(op, p, y, x);
    if (x.data != p.x.data) convert(op, x, p.x);
    return;
  }
  if (x.data != p.x.data) convert(op, p.x, x);
  backward_weight(op, p, x, y);
}

}  // namespace ferry::cpu_backend
