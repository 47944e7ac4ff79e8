// Elementwise ops of two tensors, and their forms with a scalar and in place.
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

void infer_broadcast(InferContext& context, DType result_type) {
  context.require_same_dtype(0, 1);
  const Shape &a = context.shape(0), &b = context.shape(1);
  if (a == b) {
    context.add_output(a, result_type, elementwise_strides(context.in(0), a));
    return;
  }
  Shape shape;
  if (!broadcast_shapes(a, b, shape)) context.fail_shapes(0, 1, "the shapes do not broadcast");
  context.add_output(shape, result_type, elementwise_strides(context.in(a == shape ? 0 : 1), shape));
}

void require_numeric(const InferContext& context, std::size_t i) {
  context.require_given(i);
  FERRY_CHECK(context.dtype(i) != DType::boolean, InvalidArgument, "{}: argument '{}' is {}; it needs numbers",
              context.schema.name, context.schema.argument(i), describe(context.in(i)));
}

void infer_arithmetic(InferContext& context) {
  require_numeric(context, 0);
  infer_broadcast(context, context.dtype(0));
}

void infer_comparison(InferContext& context) {
  require_numeric(context, 0);
  infer_broadcast(context, DType::boolean);
}

void infer_in_place(InferContext& context) {
  require_numeric(context, 0);
  context.require_same_dtype(0, 1);
  Shape shape;
  if (!broadcast_shapes(context.shape(0), context.shape(1), shape) || shape != context.shape(0)) {
    context.fail_shapes(0, 1, "the second does not broadcast to the first, which is written in place");
  }
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

void infer_scalar(InferContext& context) {
  require_numeric(context, 0);
  context.add_output(context.shape(0), context.dtype(0), elementwise_strides(context.in(0), context.shape(0)));
}

void infer_scalar_in_place(InferContext& context) {
  require_numeric(context, 0);
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

// (dy, a[, b]): of dy's shape, with a's order of axes where a has that shape.
void infer_square_error_backward(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  const Shape& shape = context.shape(0);
  context.add_output(shape, context.dtype(0),
                     elementwise_strides(context.in(context.shape(1) == shape ? 1 : 0), shape));
}

double square_error_backward_flops(const InferContext& context) {
  return 3.0 * static_cast<double>(context.shape(0).product());
}

// Sets the gradient of input i, summed over broadcast axes.
void give(GradientContext& context, std::size_t i, const Tensor& gradient) {
  context.set(i, sum_to(gradient, context.shape(i), context.where()));
}

void gradient_add(GradientContext& context) {
  if (context.needs(0)) give(context, 0, context.dy());
  if (context.needs(1)) give(context, 1, context.dy());
}

void gradient_sub(GradientContext& context) {
  if (context.needs(0)) give(context, 0, context.dy());
  if (context.needs(1)) give(context, 1, neg(context.dy(), context.where()));
}

void gradient_mul(GradientContext& context) {
  if (context.needs(0)) give(context, 0, mul(context.dy(), context.input(1), context.where()));
  if (context.needs(1)) give(context, 1, mul(context.dy(), context.input(0), context.where()));
}

void gradient_div(GradientContext& context) {
  const Where where = context.where();
  const Tensor scaled = div(context.dy(), context.input(1), where);
  if (context.needs(0)) give(context, 0, scaled);
  if (context.needs(1)) {
    give(context, 1, neg(mul(scaled, div(context.input(0), context.input(1), where), where), where));
  }
}

// Equal elements share the gradient.
void gradient_extremum(GradientContext& context, bool maximum) {
  const Where where = context.where();
  const Tensor &a = context.input(0), &b = context.input(1);
  const DType type = context.dtype(0);
  const Tensor tie = mul(equal(a, b, where).to(type, where), 0.5, where);
  for (const std::size_t i : {0, 1}) {
    if (!context.needs(i)) continue;
    const bool first = i == 0;
    const Tensor wins = maximum == first ? greater(a, b, where) : less(a, b, where);
    give(context, i, mul(context.dy(), add(wins.to(type, where), tie, where), where));
  }
}

void gradient_square_error(GradientContext& context) {
  const Where where = context.where();
  const Tensor slope = invoke(kSquareErrorBackward, {&context.dy(), &context.input(0), &context.input(1)}, {}, where);
  if (context.needs(0)) give(context, 0, slope);
  if (context.needs(1)) context.set(1, neg(sum_to(slope, context.shape(1), where), where));
}

void gradient_square_error_scalar(GradientContext& context) {
  context.set(0, invoke(kSquareErrorScalarBackward, {&context.dy(), &context.input(0)},
                        context.attributes<ScalarAttributes>(), context.where()));
}

void gradient_add_scalar(GradientContext& context) { context.set(0, context.dy()); }

void gradient_mul_scalar(GradientContext& context) {
  context.set(0, mul(context.dy(), context.attributes<ScalarAttributes>().value, context.where()));
}

void gradient_rsub_scalar(GradientContext& context) { context.set(0, neg(context.dy(), context.where())); }

void gradient_rdiv_scalar(GradientContext& context) {
  const Where where = context.where();
  const double value = context.attributes<ScalarAttributes>().value;
  context.set(0, mul(mul(context.dy(), pow(context.input(0), -2, where), where), -value, where));
}

void gradient_pow_scalar(GradientContext& context) {
  const Where where = context.where();
  const double exponent = context.attributes<ScalarAttributes>().value;
  if (exponent == 0) return context.set(0, zeros_like(context.input(0), where));  // also where x is 0
  const Tensor power = pow(context.input(0), exponent - 1, where);
  context.set(0, mul(mul(context.dy(), power, where), exponent, where));
}

constexpr OpSchema binary(std::string_view name, void (*gradient)(GradientContext&), ArgumentMask saved,
                          AutocastRule autocast = AutocastRule::widest) {
  return {.name = name,
          .arguments = {"a", "b"},
          .infer = infer_arithmetic,
          .broadcasts = true,
          .gradient = gradient,
          .saved_inputs = saved,
          .autocast = autocast};
}

constexpr OpSchema comparison(std::string_view name) {
  return {.name = name,
          .arguments = {"a", "b"},
          .infer = infer_comparison,
          .broadcasts = true,
          .autocast = AutocastRule::widest};
}

constexpr OpSchema in_place(std::string_view name, std::string_view kernel, void (*gradient)(GradientContext&),
                            ArgumentMask saved) {
  return {.name = name,
          .arguments = {"x", "other"},
          .kernel = kernel,
          .infer = infer_in_place,
          .mutates = 1,
          .follows_first_input = true,
          .broadcasts = true,
          .gradient = gradient,
          .saved_inputs = saved,
          .autocast = AutocastRule::widest};
}

constexpr OpSchema scalar(std::string_view name, void (*gradient)(GradientContext&), ArgumentMask saved,
                          AutocastRule autocast = AutocastRule::as_is) {
  return {.name = name,
          .arguments = {"x"},
          .infer = infer_scalar,
          .gradient = gradient,
          .saved_inputs = saved,
          .autocast = autocast};
}

}  // namespace

const OpSchema kAdd = binary("add", gradient_add, 0);
const OpSchema kSub = binary("sub", gradient_sub, 0);
const OpSchema kMul = binary("mul", gradient_mul, 0b11);
const OpSchema kDiv = binary("div", gradient_div, 0b11);
const OpSchema kMaximum = binary(
    "maximum", [](GradientContext& context) { gradient_extremum(context, true); }, 0b11);
const OpSchema kMinimum = binary(
    "minimum", [](GradientContext& context) { gradient_extremum(context, false); }, 0b11);
const OpSchema kSquareError = binary("square_error", gradient_square_error, 0b11, AutocastRule::f32);
const OpSchema kSquareErrorBackward{.name = "square_error_backward",
                                    .arguments = {"dy", "a", "b"},
                                    .infer = infer_square_error_backward,
                                    .broadcasts = true,
                                    .flops = square_error_backward_flops};
const OpSchema kSquareErrorScalar = scalar("square_error_scalar", gradient_square_error_scalar, 1, AutocastRule::f32);
const OpSchema kSquareErrorScalarBackward{.name = "square_error_scalar_backward",
                                          .arguments = {"dy", "x"},
                                          .infer = infer_square_error_backward,
                                          .flops = square_error_backward_flops};
const OpSchema kEqual = comparison("equal");
const OpSchema kGreater = comparison("greater");
const OpSchema kLess = comparison("less");
const OpSchema kAddInPlace = in_place("add_", "add", gradient_add, 0);
const OpSchema kSubInPlace = in_place("sub_", "sub", gradient_sub, 0);
const OpSchema kMulInPlace = in_place("mul_", "mul", gradient_mul, 0b11);
const OpSchema kAddScalar = scalar("add_scalar", gradient_add_scalar, 0);
const OpSchema kMulScalar = scalar("mul_scalar", gradient_mul_scalar, 0);
const OpSchema kRsubScalar = scalar("rsub_scalar", gradient_rsub_scalar, 0);
const OpSchema kRdivScalar = scalar("rdiv_scalar", gradient_rdiv_scalar, 1, AutocastRule::f32);
const OpSchema kPowScalar = scalar("pow_scalar", gradient_pow_scalar, 1, AutocastRule::f32);
const OpSchema kMulScalarInPlace{.name = "mul_scalar_",
                                 .arguments = {"x"},
                                 .kernel = "mul_scalar",
                                 .infer = infer_scalar_in_place,
                                 .mutates = 1,
                                 .follows_first_input = true,
                                 .gradient = gradient_mul_scalar,
                                 .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

using namespace ops;

Tensor add(const Tensor& a, const Tensor& b, Where where) { return invoke(kAdd, {&a, &b}, {}, where); }
Tensor sub(const Tensor& a, const Tensor& b, Where where) { return invoke(kSub, {&a, &b}, {}, where); }
Tensor mul(const Tensor& a, const Tensor& b, Where where) { return invoke(kMul, {&a, &b}, {}, where); }
Tensor div(const Tensor& a, const Tensor& b, Where where) { return invoke(kDiv, {&a, &b}, {}, where); }
Tensor maximum(const Tensor& a, const Tensor& b, Where where) { return invoke(kMaximum, {&a, &b}, {}, where); }
Tensor minimum(const Tensor& a, const Tensor& b, Where where) { return invoke(kMinimum, {&a, &b}, {}, where); }
Tensor equal(const Tensor& a, const Tensor& b, Where where) { return invoke(kEqual, {&a, &b}, {}, where); }
Tensor greater(const Tensor& a, const Tensor& b, Where where) { return invoke(kGreater, {&a, &b}, {}, where); }
Tensor less(const Tensor& a, const Tensor& b, Where where) { return invoke(kLess, {&a, &b}, {}, where); }
Tensor square_error(const Tensor& a, const Tensor& b, Where where) { return invoke(kSquareError, {&a, &b}, {}, where); }

Tensor add(const Tensor& x, double value, Where where) {
  return invoke(kAddScalar, {&x}, ScalarAttributes{value}, where);
}
Tensor mul(const Tensor& x, double value, Where where) {
  return invoke(kMulScalar, {&x}, ScalarAttributes{value}, where);
}
Tensor rsub(const Tensor& x, double value, Where where) {
  return invoke(kRsubScalar, {&x}, ScalarAttributes{value}, where);
}
Tensor rdiv(const Tensor& x, double value, Where where) {
  return invoke(kRdivScalar, {&x}, ScalarAttributes{value}, where);
}
Tensor square_error(const Tensor& x, double target, Where where) {
  return invoke(kSquareErrorScalar, {&x}, ScalarAttributes{target}, where);
}
Tensor pow(const Tensor& x, double exponent, Where where) {
  return invoke(kPowScalar, {&x}, ScalarAttributes{exponent}, where);
}

Tensor& Tensor::add_(const Tensor& other, Where where) {
  return *this = invoke(kAddInPlace, {this, &other}, {}, where);
}
Tensor& Tensor::sub_(const Tensor& other, Where where) {
  return *this = invoke(kSubInPlace, {this, &other}, {}, where);
}
Tensor& Tensor::mul_(const Tensor& other, Where where) {
  return *this = invoke(kMulInPlace, {this, &other}, {}, where);
}
Tensor& Tensor::mul_(double value, Where where) {
  return *this = invoke(kMulScalarInPlace, {this}, ScalarAttributes{value}, where);
}

}  // namespace ferry
