// upsample2d and adaptive_avg_pool2d.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/ops/convolution.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"

namespace ferry::ops {
namespace {

void require_image(const InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 4);
}

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

void add_image(InferContext& context, const std::int64_t (&size)[2]) {
  const Shape& x = context.shape(0);
  const Shape y = {x[0], x[1], size[0], size[1]};
  const bool legal = size[0] > 0 && size[1] > 0 && std::max(size[0], size[1]) <= kMost && x[2] > 0 && x[3] > 0;
  if (!legal) {
    context.fail_shape(0, fmt::format("it cannot become {}", to_string(y)));
  }
  context.add_output(y, context.dtype(0), image_strides(context.in(0), y));
}

// Whether image_strides() has followed a channels-last image.
bool is_channels_last(const OutputSpec& y) { return y.strides != contiguous_strides(y.shape); }

void infer_upsample(InferContext& context) {
  require_image(context);
  auto attributes = context.attributes.as<Upsample2dAttributes>();
  const Shape& x = context.shape(0);
  for (int i = 0; i < 2; ++i) {
    // By scale: size is 0 and ratio 1 / scale.
    const auto extent = static_cast<double>(x[2 + i]);
    if (attributes.size[i] > 0) {
      attributes.ratio[i] = extent / static_cast<double>(attributes.size[i]);
    } else {
      const double size = std::min(std::floor(extent / attributes.ratio[i]), static_cast<double>(kMost) + 1);
      attributes.size[i] = static_cast<std::int64_t>(size);
    }
  }
  add_image(context, attributes.size);
  attributes.channels_last = is_channels_last(context.output());
  context.attributes = attributes;
}

void infer_adaptive_pool(InferContext& context) {
  require_image(context);
  auto attributes = context.attributes.as<AdaptivePool2dAttributes>();
  add_image(context, attributes.size);
  attributes.channels_last = is_channels_last(context.output());
  context.attributes = attributes;
}

template <class A>
void infer_backward(InferContext& context) {
  const auto& attributes = context.attributes.as<A>();
  const Shape& shape = attributes.result;
  context.add_output(shape, context.dtype(0),
                     attributes.channels_last ? channels_last_strides(shape) : contiguous_strides(shape));
}

template <class A, const OpSchema& backward>
void gradient_resample(GradientContext& context) {
  A attributes = context.attributes<A>();
  attributes.result = context.shape(0);
  context.set(0, invoke(backward, {&context.dy()}, attributes, context.where()));
}

// A product and a sum for each element read, of the larger of the two images about once.
double resample_flops(const InferContext& context) {
  const double x = static_cast<double>(context.shape(0).product());
  const double y = static_cast<double>(context.output().shape.product());
  return 2 * (x + y);
}

}  // namespace

const OpSchema kUpsample2dBackward{.name = "upsample2d_backward",
                                   .op_class = OpClass::pooling,
                                   .arguments = {"dy"},
                                   .infer = infer_backward<Upsample2dAttributes>,
                                   .image = 1,
                                   .flops = resample_flops};
const OpSchema kAdaptiveAvgPool2dBackward{.name = "adaptive_avg_pool2d_backward",
                                          .op_class = OpClass::pooling,
                                          .arguments = {"dy"},
                                          .infer = infer_backward<AdaptivePool2dAttributes>,
                                          .image = 1,
                                          .flops = resample_flops};
const OpSchema kUpsample2d{.name = "upsample2d",
                           .op_class = OpClass::pooling,
                           .arguments = {"x"},
                           .infer = infer_upsample,
                           .image = 1,
                           .flops = resample_flops,
                           .gradient = gradient_resample<Upsample2dAttributes, kUpsample2dBackward>,
                           .autocast = AutocastRule::as_is};
const OpSchema kAdaptiveAvgPool2d{.name = "adaptive_avg_pool2d",
                                  .op_class = OpClass::pooling,
                                  .arguments = {"x"},
                                  .infer = infer_adaptive_pool,
                                  .image = 1,
                                  .flops = resample_flops,
                                  .gradient = gradient_resample<AdaptivePool2dAttributes, kAdaptiveAvgPool2dBackward>,
                                  .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor upsample2d(const Tensor& x, const Upsample2dOptions& options, Where where) {
  const bool by_size = options.size[0] != 0 || options.size[1] != 0;
  ops::Upsample2dAttributes attributes{.mode = options.mode, .align_corners = options.align_corners};
  ops::located("upsample2d", x, where, [&] {
    for (std::size_t i = 0; i < 2; ++i) {
      FERRY_CHECK(!by_size || options.size[i] > 0, InvalidArgument,
                  "upsample2d: size {} x {} must be positive, or 0 x 0 to go by scale", options.size[0],
                  options.size[1]);
      FERRY_CHECK(by_size || (options.scale[i] > 0 && std::isfinite(options.scale[i])), InvalidArgument,
                  "upsample2d: scale {} x {} must be positive", options.scale[0], options.scale[1]);
      attributes.size[i] = options.size[i];
      attributes.ratio[i] = 1 / options.scale[i];
    }
  });
  return ops::invoke(ops::kUpsample2d, {&x}, attributes, where);
}

Tensor adaptive_avg_pool2d(const Tensor& x, const std::array<std::int64_t, 2>& output, Where where) {
  // Of the whole image: a reduction, whose gradient needs no memory.
  const bool whole = output[0] == 1 && output[1] == 1 && x.defined() && x.rank() == 4 && is_floating(x.dtype());
  if (whole && x.shape()[2] * x.shape()[3] > 0) return mean(x, {2, 3}, true, where);
  return ops::invoke(ops::kAdaptiveAvgPool2d, {&x}, ops::AdaptivePool2dAttributes{{output[0], output[1]}}, where);
}

}  // namespace ferry
