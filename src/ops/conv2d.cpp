#include <algorithm>
#include <limits>

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

// Extent of a convolution's result along one of the two axes. Throws: ShapeError when the window does not fit.
std::int64_t window_count(const InferContext& context, std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                          std::int64_t padding, std::int64_t dilation) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const bool legal = stride > 0 && padding >= 0 && dilation > 0 && std::max({stride, padding, dilation}) <= kMost;
  FERRY_CHECK(legal, InvalidArgument, "{}: stride {}, padding {}, dilation {} are out of range (to {})",
              context.schema.name, stride, padding, dilation, kMost);
  if (kernel == 0) context.fail_shape(1, "a kernel of no elements has no result");
  const std::int64_t span = extent + 2 * padding - dilation * (kernel - 1) - 1;
  if (span < 0) context.fail_shapes(0, 1, "the kernel is larger than the padded image");
  return span / stride + 1;
}

void infer_conv2d(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  context.require_rank(0, 4);
  context.require_rank(1, 4);
  const auto& a = context.attributes.as<Conv2dAttributes>();
  const Shape &x = context.shape(0), &w = context.shape(1);
  FERRY_CHECK(a.groups > 0, InvalidArgument, "conv2d: groups is {}; it must be positive", a.groups);
  if (x[1] != w[1] * a.groups || w[0] % a.groups != 0) {
    context.fail_shapes(0, 1, fmt::format("channels do not match with {} groups", a.groups));
  }
  if (x[1] == 0) context.fail_shape(0, "it needs at least one channel");
  context.require_vector(2, w[0], 1);
  Shape y = {x[0], w[0], 0, 0};
  for (int i = 0; i < 2; ++i) {
    y[2 + i] = window_count(context, x[2 + i], w[2 + i], a.stride[i], a.padding[i], a.dilation[i]);
  }
  context.add_output(y, context.dtype(0), channels_last_strides(y));
}

void infer_backward_input(InferContext& context) {
  const auto& shape = context.attributes.as<Conv2dAttributes>().result;
  context.add_output(shape, context.dtype(0), channels_last_strides(shape));
}

void infer_backward_weight(InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2dAttributes>();
  context.add_output(attributes.result, context.dtype(0));
  if (attributes.wants_bias) {
    context.add_output({attributes.result[0]}, attributes.bias_dtype);
  } else {
    context.add_no_output();
  }
}

double macs(double outputs, const Shape& weight) {
  return 2 * outputs * static_cast<double>(weight[1] * weight[2] * weight[3]);
}
double forward_flops(const InferContext& context) {
  return macs(static_cast<double>(context.output().shape.product()), context.shape(1));
}
double backward_input_flops(const InferContext& context) {
  return macs(static_cast<double>(context.shape(0).product()), context.shape(1));
}
double backward_weight_flops(const InferContext& context) {
  return macs(static_cast<double>(context.shape(0).product()), context.output().shape);
}

void gradient_conv2d(GradientContext& context) {
  const Where where = context.where();
  Conv2dAttributes attributes = context.attributes<Conv2dAttributes>();
  if (context.needs(0)) {
    attributes.result = context.shape(0);
    context.set(0, invoke(kConv2dBackwardInput, {&context.dy(), &context.input(1)}, attributes, where));
  }
  if (!context.needs(1) && !context.needs(2)) return;
  attributes.result = context.shape(1);
  attributes.wants_bias = context.needs(2);
  if (context.needs(2)) attributes.bias_dtype = context.dtype(2);
  const Tensor* inputs[] = {&context.dy(), &context.input(0)};
  Tensor results[2];
  invoke(kConv2dBackwardWeight, inputs, attributes, where, results);
  if (context.needs(1)) context.set(1, results[0]);
  if (context.needs(2)) context.set(2, results[1]);
}

}  // namespace

const OpSchema kConv2d{.name = "conv2d",
                       .op_class = OpClass::convolution,
                       .arguments = {"x", "weight", "bias"},
                       .infer = infer_conv2d,
                       .contiguous = 0b100,
                       .image = 0b011,
                       .flops = forward_flops,
                       .gradient = gradient_conv2d,
                       .saved_inputs = 0b11,
                       .autocast = AutocastRule::low};
const OpSchema kConv2dBackwardInput{.name = "conv2d_backward_input",
                                    .op_class = OpClass::convolution,
                                    .arguments = {"dy", "weight"},
                                    .infer = infer_backward_input,
                                    .image = 0b11,
                                    .flops = backward_input_flops};
const OpSchema kConv2dBackwardWeight{.name = "conv2d_backward_weight",
                                     .op_class = OpClass::convolution,
                                     .arguments = {"dy", "x"},
                                     .infer = infer_backward_weight,
                                     .image = 0b11,
                                     .flops = backward_weight_flops};

}  // namespace ferry::ops

namespace ferry {

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Where where) {
  const ops::Conv2dAttributes attributes{{options.stride[0], options.stride[1]},
                                         {options.padding[0], options.padding[1]},
                                         {options.dilation[0], options.dilation[1]},
                                         options.groups};
  return ops::invoke(ops::kConv2d, {&x, &weight, &bias}, attributes, where);
}

}  // namespace ferry
