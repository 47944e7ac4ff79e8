#include <algorithm>
#include <limits>

#include "src/base/check.h"
#include "src/ops/convolution.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

// What callers state; infer turns it into Conv2dAttributes.
struct Request {
  Conv2dAttributes convolution;
  std::int64_t output_padding[2];
};

std::int64_t result_extent(const InferContext& context, const Request& r, int i) {
  const Conv2dAttributes& a = r.convolution;
  const std::int64_t extra = r.output_padding[i];
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const bool legal = a.stride[i] > 0 && a.padding[i] >= 0 && a.dilation[i] > 0 && extra >= 0 &&
                     extra < std::max(a.stride[i], a.dilation[i]) &&
                     std::max({a.stride[i], a.padding[i], a.dilation[i]}) <= kMost;
  FERRY_CHECK(
      legal, InvalidArgument,
      "conv_transpose2d: stride {}, padding {}, output_padding {}, dilation {} are out of range (output_padding "
      "must be smaller than stride or dilation)",
      a.stride[i], a.padding[i], extra, a.dilation[i]);
  const std::int64_t x = context.shape(0)[2 + i], kernel = context.shape(1)[2 + i];
  if (kernel == 0) context.fail_shape(1, "a kernel of no elements has no result");
  return (x - 1) * a.stride[i] - 2 * a.padding[i] + a.dilation[i] * (kernel - 1) + extra + 1;
}

void infer_conv_transpose2d(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  context.require_rank(0, 4);
  context.require_rank(1, 4);
  const Request request = context.attributes.as<Request>();
  Conv2dAttributes attributes = request.convolution;
  const Shape &x = context.shape(0), &w = context.shape(1);
  FERRY_CHECK(attributes.groups > 0, InvalidArgument, "conv_transpose2d: groups is {}; it must be positive",
              attributes.groups);
  if (x[1] != w[0] || w[0] % attributes.groups != 0) {
    context.fail_shapes(0, 1, fmt::format("channels do not match with {} groups", attributes.groups));
  }
  if (x[1] == 0 || w[1] == 0) context.fail_shapes(0, 1, "both need at least one channel");
  Shape y = {x[0], w[1] * attributes.groups, 0, 0};
  context.require_vector(2, y[1], 1);
  for (int i = 0; i < 2; ++i) {
    y[2 + i] = result_extent(context, request, i);
    if (y[2 + i] <= 0) context.fail_shapes(0, 1, fmt::format("the result would be {}", to_string(y)));
  }
  attributes.result = y;
  context.attributes = attributes;
  context.add_output(y, context.dtype(0), channels_last_strides(y));
}

void infer_backward_input(InferContext& context) {
  const Shape& shape = context.attributes.as<Conv2dAttributes>().result;
  context.add_output(shape, context.dtype(0), channels_last_strides(shape));
}

double macs(const Shape& x, const Shape& weight) {
  return 2 * static_cast<double>(x.product()) * static_cast<double>(weight[1] * weight[2] * weight[3]);
}
double forward_flops(const InferContext& context) { return macs(context.shape(0), context.shape(1)); }
double backward_input_flops(const InferContext& context) { return macs(context.output().shape, context.shape(1)); }

Tensor bias_gradient(const GradientContext& context) {
  const Tensor wide = context.dy().to(context.dtype(2), context.where());
  return sum(wide, {0, 2, 3}, false, context.where());
}

void gradient_conv_transpose2d(GradientContext& context) {
  const Where where = context.where();
  Conv2dAttributes attributes = context.attributes<Conv2dAttributes>();
  if (context.needs(0)) {
    attributes.result = context.shape(0);
    context.set(0, invoke(kConvTranspose2dBackwardInput, {&context.dy(), &context.input(1)}, attributes, where));
  }
  if (context.needs(1)) {
    attributes.result = context.shape(1);
    const Tensor* inputs[] = {&context.input(0), &context.dy()};
    Tensor results[2];
    invoke(kConv2dBackwardWeight, inputs, attributes, where, results);
    context.set(1, results[0]);
  }
  if (context.needs(2)) context.set(2, bias_gradient(context));
}

}  // namespace

const OpSchema kConvTranspose2d{.name = "conv_transpose2d",
                                .op_class = OpClass::convolution,
                                .arguments = {"x", "weight", "bias"},
                                .infer = infer_conv_transpose2d,
                                .contiguous = 0b100,
                                .image = 0b011,
                                .flops = forward_flops,
                                .gradient = gradient_conv_transpose2d,
                                .saved_inputs = 0b11,
                                .autocast = AutocastRule::low};
const OpSchema kConvTranspose2dBackwardInput{.name = "conv_transpose2d_backward_input",
                                             .op_class = OpClass::convolution,
                                             .arguments = {"dy", "weight"},
                                             .kernel = "conv2d",
                                             .infer = infer_backward_input,
                                             .image = 0b11,
                                             .flops = backward_input_flops};

}  // namespace ferry::ops

namespace ferry {

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options, Where where) {
  const ops::Request request{{{options.stride[0], options.stride[1]},
                              {options.padding[0], options.padding[1]},
                              {options.dilation[0], options.dilation[1]},
                              options.groups},
                             {options.output_padding[0], options.output_padding[1]}};
  return ops::invoke(ops::kConvTranspose2d, {&x, &weight, &bias}, request, where);
}

}  // namespace ferry
