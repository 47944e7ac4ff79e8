#include <ferry/ops.h>
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_loss(InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 2);
  context.require_integer(1);
  if (context.in(1).rank() != 1 || context.shape(1)[0] != context.shape(0)[0]) {
    context.fail_shapes(0, 1, "labels needs one class for each row of logits");
  }
  const DType type = size_of(context.dtype(0)) == 2 ? DType::f32 : context.dtype(0);
  context.add_output(context.shape(1), type);
  context.add_output(context.shape(1), type);
}

void infer_backward(InferContext& context) { context.add_output(context.shape(1), context.dtype(1)); }

double loss_flops(const InferContext& context) { return 5.0 * static_cast<double>(context.shape(0).product()); }
double backward_flops(const InferContext& context) { return 4.0 * static_cast<double>(context.shape(1).product()); }

void gradient_loss(GradientContext& context) {
  if (!context.needs(0)) return;
  const Tensor *dy = &context.dy(), *logits = &context.input(0), *labels = &context.input(1), *lse = &context.output(1);
  context.set(0, invoke(kSoftmaxCrossEntropyBackward, {dy, logits, labels, lse}, {}, context.where()));
}

}  // namespace

const OpSchema kSoftmaxCrossEntropy{.name = "softmax_cross_entropy",
                                    .op_class = OpClass::normalization,
                                    .arguments = {"logits", "labels"},
                                    .infer = infer_loss,
                                    .contiguous = 0b11,
                                    .flops = loss_flops,
                                    .gradient = gradient_loss,
                                    .saved_inputs = 0b11,
                                    .saved_outputs = 0b10,
                                    .autocast = AutocastRule::as_is};
const OpSchema kSoftmaxCrossEntropyBackward{.name = "softmax_cross_entropy_backward",
                                            .op_class = OpClass::normalization,
                                            .arguments = {"dloss", "logits", "labels", "log_sum_exp"},
                                            .infer = infer_backward,
                                            .contiguous = 0b1110,
                                            .flops = backward_flops};

}  // namespace ferry::ops

namespace ferry {

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Reduction reduction, Where where) {
  Tensor outputs[2];
  const Tensor* inputs[] = {&logits, &labels};
  ops::invoke(ops::kSoftmaxCrossEntropy, inputs, {}, where, outputs);
  if (reduction == Reduction::none) return outputs[0];
  return reduction == Reduction::mean ? mean(outputs[0], {}, false, where) : sum(outputs[0], {}, false, where);
}

}  // namespace ferry
