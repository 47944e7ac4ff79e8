#include <ferry/ops.h>
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_l2_normalize(InferContext& context) {
  context.require_float(0);
  Shape norm = context.shape(0);
  norm[context.attributes.as<L2NormalizeAttributes>().axis] = 1;
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(0), context.shape(0)));
  context.add_output(norm, context.dtype(0));
}

void infer_backward(InferContext& context) {
  context.add_output(context.shape(1), context.dtype(1), elementwise_strides(context.in(1), context.shape(1)));
}

double normalize_flops(const InferContext& context) {
  return 3.0 * static_cast<double>(context.output().shape.product());
}

void gradient_l2_normalize(GradientContext& context) {
  const auto& attributes = context.attributes<L2NormalizeAttributes>();
  const Tensor *dy = &context.dy(), *y = &context.output(0), *norm = &context.output(1);
  context.set(0, invoke(kL2NormalizeBackward, {dy, y, norm}, attributes, context.where()));
}

}  // namespace

const OpSchema kL2Normalize{.name = "l2_normalize",
                            .op_class = OpClass::normalization,
                            .arguments = {"x"},
                            .infer = infer_l2_normalize,
                            .flops = normalize_flops,
                            .gradient = gradient_l2_normalize,
                            .saved_outputs = 0b11,
                            .autocast = AutocastRule::f32};
const OpSchema kL2NormalizeBackward{.name = "l2_normalize_backward",
                                    .op_class = OpClass::normalization,
                                    .arguments = {"dy", "y", "norm"},
                                    .infer = infer_backward,
                                    .flops = normalize_flops};

}  // namespace ferry::ops

namespace ferry {

Tensor l2_normalize(const Tensor& x, int axis, double epsilon, Where where) {
  const int wrapped =
      ops::located("l2_normalize", x, where, [&] { return ops::wrap_axis("l2_normalize", axis, x.rank()); });
  const ops::L2NormalizeAttributes attributes{wrapped, epsilon};
  Tensor outputs[2];
  const Tensor* inputs[] = {&x};
  ops::invoke(ops::kL2Normalize, inputs, attributes, where, outputs);
  return outputs[0];
}

}  // namespace ferry
