// max_pool2d and avg_pool2d.
#include <limits>

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

Shape pooled_shape(const InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 4);
  const auto& a = context.attributes.as<Pool2dAttributes>();
  Shape y = context.shape(0);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  FERRY_CHECK(a.kernel[1] <= 0 || a.kernel[0] <= kMost / a.kernel[1], InvalidArgument,
              "{}: a window of {} x {} has more than {} elements", context.schema.name, a.kernel[0], a.kernel[1],
              kMost);
  for (int i = 0; i < 2; ++i) {
    const bool legal = a.kernel[i] > 0 && a.stride[i] > 0 && a.padding[i] >= 0 && a.padding[i] <= a.kernel[i] / 2;
    FERRY_CHECK(legal, InvalidArgument, "{}: kernel {}, stride {}, padding {} (padding at most half the kernel)",
                context.schema.name, a.kernel[i], a.stride[i], a.padding[i]);
    const std::int64_t span = y[2 + i] + 2 * a.padding[i] - a.kernel[i];
    if (span < 0) {
      context.fail_shape(0,
                         fmt::format("a window of {} x {} is larger than the padded image", a.kernel[0], a.kernel[1]));
    }
    y[2 + i] = span / a.stride[i] + 1;
  }
  return y;
}

void infer_max_pool(InferContext& context) {
  const Shape y = pooled_shape(context);
  const auto& a = context.attributes.as<Pool2dAttributes>();
  const DType index = a.kernel[0] * a.kernel[1] <= 256 ? DType::u8 : DType::i32;
  const Strides strides = image_strides(context.in(0), y);
  context.add_output(y, context.dtype(0), strides);
  context.add_output(y, index, strides);
}

void infer_avg_pool(InferContext& context) {
  const Shape y = pooled_shape(context);
  context.add_output(y, context.dtype(0), image_strides(context.in(0), y));
}

// x's order in memory as far as the index, which has it, or dy tells. Gradients of one element a channel have both
// orders: they get that of convolutions.
void infer_backward(InferContext& context) {
  const Shape& shape = context.attributes.as<Pool2dAttributes>().result;
  const Tensor& telling = context.in(context.inputs.size() - 1);
  const bool either = telling.shape()[2] * telling.shape()[3] == 1;
  context.add_output(shape, context.dtype(0), either ? channels_last_strides(shape) : image_strides(telling, shape));
}

double window_flops(const InferContext& context) {
  const auto& a = context.attributes.as<Pool2dAttributes>();
  return static_cast<double>(context.output().shape.product() * a.kernel[0] * a.kernel[1]);
}

void gradient_max_pool(GradientContext& context) {
  Pool2dAttributes attributes = context.attributes<Pool2dAttributes>();
  attributes.result = context.shape(0);
  context.set(0, invoke(kMaxPool2dBackward, {&context.dy(), &context.output(1)}, attributes, context.where()));
}

void gradient_avg_pool(GradientContext& context) {
  Pool2dAttributes attributes = context.attributes<Pool2dAttributes>();
  attributes.result = context.shape(0);
  context.set(0, invoke(kAvgPool2dBackward, {&context.dy()}, attributes, context.where()));
}

Pool2dAttributes attributes_of(const Pool2dOptions& options) {
  return {{options.kernel[0], options.kernel[1]},
          {options.stride[0], options.stride[1]},
          {options.padding[0], options.padding[1]},
          options.count_include_pad};
}

}  // namespace

const OpSchema kMaxPool2d{.name = "max_pool2d",
                          .op_class = OpClass::pooling,
                          .arguments = {"x"},
                          .infer = infer_max_pool,
                          .image = 1,
                          .flops = window_flops,
                          .gradient = gradient_max_pool,
                          .saved_outputs = 0b10,
                          .autocast = AutocastRule::as_is};
const OpSchema kMaxPool2dBackward{.name = "max_pool2d_backward",
                                  .op_class = OpClass::pooling,
                                  .arguments = {"dy", "index"},
                                  .infer = infer_backward,
                                  .image = 0b11};
const OpSchema kAvgPool2d{.name = "avg_pool2d",
                          .op_class = OpClass::pooling,
                          .arguments = {"x"},
                          .infer = infer_avg_pool,
                          .image = 1,
                          .flops = window_flops,
                          .gradient = gradient_avg_pool,
                          .autocast = AutocastRule::as_is};
const OpSchema kAvgPool2dBackward{.name = "avg_pool2d_backward",
                                  .op_class = OpClass::pooling,
                                  .arguments = {"dy"},
                                  .infer = infer_backward,
                                  .image = 1};

}  // namespace ferry::ops

namespace ferry {

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  Tensor outputs[2];
  const Tensor* inputs[] = {&x};
  ops::invoke(ops::kMaxPool2d, inputs, ops::attributes_of(options), where, outputs);
  return outputs[0];
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  return ops::invoke(ops::kAvgPool2d, {&x}, ops::attributes_of(options), where);
}

}  // namespace ferry
