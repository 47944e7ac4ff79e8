// where and masked_fill.
#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/indexing.h"
#include "src/ops/invoke.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

void require_bool(const InferContext& context, std::size_t i) {
  context.require_given(i);
  FERRY_CHECK(context.dtype(i) == DType::boolean, InvalidArgument, "{}: argument '{}' is {}; it needs bool",
              context.schema.name, context.schema.argument(i), describe(context.in(i)));
}

void infer_where(InferContext& context) {
  require_bool(context, 0);
  context.require_same_dtype(1, 2);
  Shape values, shape;
  if (!broadcast_shapes(context.shape(1), context.shape(2), values)) {
    context.fail_shapes(1, 2, "the shapes do not broadcast");
  }
  if (!broadcast_shapes(context.shape(0), values, shape)) {
    context.fail_shapes(0, context.shape(1) == values ? 1 : 2, "the shapes do not broadcast");
  }
  const Tensor& like = context.in(context.shape(1) == shape ? 1 : 2);
  context.add_output(shape, context.dtype(1), elementwise_strides(like, shape));
}

void infer_masked_fill(InferContext& context) {
  context.require_given(0);
  require_bool(context, 1);
  Shape shape;
  if (!broadcast_shapes(context.shape(0), context.shape(1), shape) || shape != context.shape(0)) {
    context.fail_shapes(0, 1, "the mask does not broadcast to the first");
  }
  context.add_output(shape, context.dtype(0), elementwise_strides(context.in(0), shape));
}

Tensor fill_where(const Tensor& x, const Tensor& mask, const MaskedFillAttributes& attributes, Where where) {
  return invoke(kMaskedFill, {&x, &mask}, attributes, where);
}

void gradient_where(GradientContext& context) {
  const Where where = context.where();
  for (const std::size_t i : {1, 2}) {
    if (!context.needs(i)) continue;
    const Tensor part = fill_where(context.dy(), context.input(0), {.value = 0, .filled = i == 2}, where);
    context.set(i, sum_to(part, context.shape(i), where));
  }
}

void gradient_masked_fill(GradientContext& context) {
  const bool filled = context.attributes<MaskedFillAttributes>().filled;
  context.set(0, fill_where(context.dy(), context.input(1), {.value = 0, .filled = filled}, context.where()));
}

}  // namespace

const OpSchema kWhere{.name = "where",
                      .arguments = {"condition", "a", "b"},
                      .infer = infer_where,
                      .broadcasts = true,
                      .gradient = gradient_where,
                      .saved_inputs = 0b1,
                      .autocast = AutocastRule::widest};
const OpSchema kMaskedFill{.name = "masked_fill",
                           .arguments = {"x", "mask"},
                           .infer = infer_masked_fill,
                           .broadcasts = true,
                           .gradient = gradient_masked_fill,
                           .saved_inputs = 0b10,
                           .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  return ops::invoke(ops::kWhere, {&condition, &a, &b}, {}, where);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Where where) {
  return ops::fill_where(x, mask, {.value = value}, where);
}

}  // namespace ferry
