// Elementwise functions of one tensor.
#include <ferry/ops.h>
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_unary(InferContext& context) {
  context.require_float(0);
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(0), context.shape(0)));
}

void infer_unary_backward(InferContext& context) {
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(1), context.shape(1)));
}

void infer_unary_backward_in_place(InferContext& context) {
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

void gradient_neg(GradientContext& context) { context.set(0, neg(context.dy(), context.where())); }
void gradient_exp(GradientContext& context) { context.set(0, mul(context.dy(), context.output(), context.where())); }
void gradient_log(GradientContext& context) { context.set(0, div(context.dy(), context.input(0), context.where())); }
void gradient_sqrt(GradientContext& context) {
  context.set(0, mul(div(context.dy(), context.output(), context.where()), 0.5, context.where()));
}
void gradient_square(GradientContext& context) {
  context.set(0, mul(mul(context.dy(), context.input(0), context.where()), 2, context.where()));
}
void gradient_abs(GradientContext& context) {
  context.set(0, invoke(kAbsBackward, {&context.dy(), &context.input(0)}, {}, context.where()));
}

template <const OpSchema& backward, const OpSchema& in_place>
void gradient_from_output(GradientContext& context) {
  context.set(0, elementwise_gradient(context, backward, in_place, context.output(), {}));
}

constexpr OpSchema unary(std::string_view name, void (*gradient)(GradientContext&), ArgumentMask inputs,
                         ArgumentMask outputs, AutocastRule autocast = AutocastRule::as_is) {
  return {.name = name,
          .arguments = {"x"},
          .infer = infer_unary,
          .gradient = gradient,
          .saved_inputs = inputs,
          .saved_outputs = outputs,
          .autocast = autocast};
}

constexpr OpSchema unary_backward(std::string_view name, std::string_view second) {
  return {.name = name, .arguments = {"dy", second}, .infer = infer_unary_backward};
}

constexpr OpSchema unary_backward_in_place(std::string_view name, std::string_view kernel) {
  return {.name = name,
          .arguments = {"dy", "y"},
          .kernel = kernel,
          .infer = infer_unary_backward_in_place,
          .mutates = 1,
          .follows_first_input = true};
}

}  // namespace

const OpSchema kReluBackward = unary_backward("relu_backward", "y");
const OpSchema kTanhBackward = unary_backward("tanh_backward", "y");
const OpSchema kSigmoidBackward = unary_backward("sigmoid_backward", "y");
const OpSchema kReluBackwardInPlace = unary_backward_in_place("relu_backward_", "relu_backward");
const OpSchema kTanhBackwardInPlace = unary_backward_in_place("tanh_backward_", "tanh_backward");
const OpSchema kSigmoidBackwardInPlace = unary_backward_in_place("sigmoid_backward_", "sigmoid_backward");
const OpSchema kAbsBackward = unary_backward("abs_backward", "x");
const OpSchema kNeg = unary("neg", gradient_neg, 0, 0);
const OpSchema kAbs = unary("abs", gradient_abs, 1, 0);
const OpSchema kExp = unary("exp", gradient_exp, 0, 1, AutocastRule::f32);
const OpSchema kLog = unary("log", gradient_log, 1, 0, AutocastRule::f32);
const OpSchema kSqrt = unary("sqrt", gradient_sqrt, 0, 1);
const OpSchema kSquare = unary("square", gradient_square, 1, 0);
const OpSchema kRelu = unary("relu", gradient_from_output<kReluBackward, kReluBackwardInPlace>, 0, 1);
const OpSchema kTanh = unary("tanh", gradient_from_output<kTanhBackward, kTanhBackwardInPlace>, 0, 1);
const OpSchema kSigmoid = unary("sigmoid", gradient_from_output<kSigmoidBackward, kSigmoidBackwardInPlace>, 0, 1);

}  // namespace ferry::ops

namespace ferry {

using namespace ops;

Tensor neg(const Tensor& x, Where where) { return invoke(kNeg, {&x}, {}, where); }
Tensor abs(const Tensor& x, Where where) { return invoke(kAbs, {&x}, {}, where); }
Tensor exp(const Tensor& x, Where where) { return invoke(kExp, {&x}, {}, where); }
Tensor log(const Tensor& x, Where where) { return invoke(kLog, {&x}, {}, where); }
Tensor sqrt(const Tensor& x, Where where) { return invoke(kSqrt, {&x}, {}, where); }
Tensor square(const Tensor& x, Where where) { return invoke(kSquare, {&x}, {}, where); }
Tensor relu(const Tensor& x, Where where) { return invoke(kRelu, {&x}, {}, where); }
Tensor tanh(const Tensor& x, Where where) { return invoke(kTanh, {&x}, {}, where); }
Tensor sigmoid(const Tensor& x, Where where) { return invoke(kSigmoid, {&x}, {}, where); }

}  // namespace ferry
