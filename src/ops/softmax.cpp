#include "src/ops/activations.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"

namespace ferry::ops {
namespace {

void infer_softmax(InferContext& context) {
  context.require_float(0);
  context.add_output(context.shape(0), context.dtype(0));
}

void infer_backward(InferContext& context) {
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  context.add_output(context.shape(1), context.dtype(1));
}

// Largest, difference, exponential (of about 20 operations), sum, division.
double softmax_flops(const InferContext& context) { return 24.0 * static_cast<double>(context.shape(0).product()); }
double softmax_backward_flops(const InferContext& context) {
  return 4.0 * static_cast<double>(context.shape(0).product());
}

template <const OpSchema& backward>
void gradient_of(GradientContext& context) {
  const auto& attributes = context.attributes<AxisAttributes>();
  context.set(0, invoke(backward, {&context.dy(), &context.output()}, attributes, context.where()));
}

Tensor along(const OpSchema& schema, const Tensor& x, int axis, Where where) {
  const int wrapped = located(schema.name, x, where, [&] { return wrap_axis(schema.name, axis, x.rank()); });
  return invoke(schema, {&x}, AxisAttributes{wrapped}, where);
}

}  // namespace

const OpSchema kSoftmaxBackward{.name = "softmax_backward",
                                .op_class = OpClass::normalization,
                                .arguments = {"dy", "y"},
                                .infer = infer_backward,
                                .contiguous = 0b11,
                                .flops = softmax_backward_flops};
const OpSchema kLogSoftmaxBackward{.name = "log_softmax_backward",
                                   .op_class = OpClass::normalization,
                                   .arguments = {"dy", "y"},
                                   .infer = infer_backward,
                                   .contiguous = 0b11,
                                   .flops = softmax_flops};
const OpSchema kSoftmax{.name = "softmax",
                        .op_class = OpClass::normalization,
                        .arguments = {"x"},
                        .infer = infer_softmax,
                        .contiguous = 1,
                        .flops = softmax_flops,
                        .gradient = gradient_of<kSoftmaxBackward>,
                        .saved_outputs = 1,
                        .autocast = AutocastRule::f32};
const OpSchema kLogSoftmax{.name = "log_softmax",
                           .op_class = OpClass::normalization,
                           .arguments = {"x"},
                           .infer = infer_softmax,
                           .contiguous = 1,
                           .flops = softmax_flops,
                           .gradient = gradient_of<kLogSoftmaxBackward>,
                           .saved_outputs = 1,
                           .autocast = AutocastRule::f32};

}  // namespace ferry::ops

namespace ferry {

Tensor softmax(const Tensor& x, int axis, Where where) { return ops::along(ops::kSoftmax, x, axis, where); }
Tensor log_softmax(const Tensor& x, int axis, Where where) { return ops::along(ops::kLogSoftmax, x, axis, where); }

}  // namespace ferry
