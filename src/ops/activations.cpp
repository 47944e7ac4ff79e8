// gelu, silu, leaky_relu, dropout.
#include "src/ops/activations.h"

#include "src/base/check.h"
#include "src/ops/creation.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"

namespace ferry::ops {
namespace {

void infer_activation(InferContext& context) {
  context.require_float(0);
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(0), context.shape(0)));
}

void infer_activation_backward(InferContext& context) {
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(1), context.shape(1)));
}

void infer_dropout(InferContext& context) {
  context.require_float(0);
  context.add_output(context.shape(0), context.dtype(0));
}

// An exponential, a division and a polynomial.
double smooth_flops(const InferContext& context) { return 40.0 * static_cast<double>(context.shape(0).product()); }
// A quarter of ten rounds of Philox, a comparison and a product.
double dropout_flops(const InferContext& context) { return 20.0 * static_cast<double>(context.shape(0).product()); }

void gradient_gelu(GradientContext& context) {
  const auto& attributes = context.attributes<GeluAttributes>();
  context.set(0, invoke(kGeluBackward, {&context.dy(), &context.input(0)}, attributes, context.where()));
}

void gradient_silu(GradientContext& context) {
  context.set(0, invoke(kSiluBackward, {&context.dy(), &context.input(0)}, {}, context.where()));
}

void gradient_leaky_relu(GradientContext& context) {
  const auto& attributes = context.attributes<ScalarAttributes>();
  context.set(0, invoke(kLeakyReluBackward, {&context.dy(), &context.output()}, attributes, context.where()));
}

void gradient_dropout(GradientContext& context) {
  const auto& attributes = context.attributes<DropoutAttributes>();
  context.set(0, invoke(kDropoutBackward, {&context.dy()}, attributes, context.where()));
}

}  // namespace

const OpSchema kGelu{.name = "gelu",
                     .arguments = {"x"},
                     .infer = infer_activation,
                     .flops = smooth_flops,
                     .gradient = gradient_gelu,
                     .saved_inputs = 1,
                     .autocast = AutocastRule::as_is};
const OpSchema kGeluBackward{
    .name = "gelu_backward", .arguments = {"dy", "x"}, .infer = infer_activation_backward, .flops = smooth_flops};
const OpSchema kSilu{.name = "silu",
                     .arguments = {"x"},
                     .infer = infer_activation,
                     .flops = smooth_flops,
                     .gradient = gradient_silu,
                     .saved_inputs = 1,
                     .autocast = AutocastRule::as_is};
const OpSchema kSiluBackward{
    .name = "silu_backward", .arguments = {"dy", "x"}, .infer = infer_activation_backward, .flops = smooth_flops};
const OpSchema kLeakyRelu{.name = "leaky_relu",
                          .arguments = {"x"},
                          .infer = infer_activation,
                          .gradient = gradient_leaky_relu,
                          .saved_outputs = 1,
                          .autocast = AutocastRule::as_is};
const OpSchema kLeakyReluBackward{
    .name = "leaky_relu_backward", .arguments = {"dy", "y"}, .infer = infer_activation_backward};
const OpSchema kDropout{.name = "dropout",
                        .arguments = {"x"},
                        .infer = infer_dropout,
                        .contiguous = 1,
                        .flops = dropout_flops,
                        .gradient = gradient_dropout,
                        .autocast = AutocastRule::as_is};
const OpSchema kDropoutBackward{.name = "dropout_backward",
                                .arguments = {"dy"},
                                .kernel = "dropout",
                                .infer = infer_dropout,
                                .contiguous = 1,
                                .flops = dropout_flops};

}  // namespace ferry::ops

namespace ferry {

using namespace ops;

Tensor gelu(const Tensor& x, GeluApproximation approximation, Where where) {
  return invoke(kGelu, {&x}, GeluAttributes{approximation}, where);
}
Tensor silu(const Tensor& x, Where where) { return invoke(kSilu, {&x}, {}, where); }

Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  if (slope >= 0) return invoke(kLeakyRelu, {&x}, ScalarAttributes{slope}, where);
  // The result's sign no longer tells x's.
  return sub(relu(x, where), mul(relu(neg(x, where), where), slope, where), where);
}

Tensor dropout(const Tensor& x, double p, bool training, Where where) {
  DropoutAttributes attributes{.p = p};
  located("dropout", x, where, [&] {
    FERRY_CHECK(p >= 0 && p <= 1, InvalidArgument, "dropout: p is {}; a probability is in [0, 1]", p);
    if (p == 0 || !training) return;
    const RuntimeOf runtime(x);
    const RandomStream stream = draw_random(x.numel());
    attributes.seed = stream.seed;
    attributes.offset = stream.offset;
  });
  return p == 0 || !training ? x : invoke(kDropout, {&x}, attributes, where);
}

}  // namespace ferry
