// copy: dtype conversion, dense copies, copy_.
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

void infer_copy(InferContext& context) {
  context.require_given(0);
  const auto& attributes = context.attributes.as<CopyAttributes>();
  const Strides strides = attributes.row_major ? contiguous_strides(context.shape(0))
                                               : elementwise_strides(context.in(0), context.shape(0));
  context.add_output(context.shape(0), attributes.dtype, strides);
}

void gradient_copy(GradientContext& context) {
  if (context.needs(0)) context.set(0, context.dy().to(context.dtype(0), context.where()));
}

void infer_copy_in_place(InferContext& context) {
  context.require_given(0);
  context.require_given(1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

void gradient_copy_in_place(GradientContext& context) {
  if (context.needs(1)) context.set(1, context.dy().to(context.dtype(1), context.where()));
}

}  // namespace

const OpSchema kCopy{.name = "copy",
                     .op_class = OpClass::copy,
                     .arguments = {"x"},
                     .infer = infer_copy,
                     .gradient = gradient_copy,
                     .autocast = AutocastRule::as_is};
const OpSchema kCopyInPlace{.name = "copy_",
                            .op_class = OpClass::copy,
                            .arguments = {"x", "other"},
                            .infer = infer_copy_in_place,
                            .mutates = 1,
                            .follows_first_input = true,
                            .gradient = gradient_copy_in_place,
                            .autocast = AutocastRule::as_is};

Tensor copy_dense(const Tensor& x, DType dtype, Where where) {
  return invoke(kCopy, {&x}, CopyAttributes{dtype, true}, where);
}

}  // namespace ferry::ops

namespace ferry {

Tensor Tensor::to(DType target, Where where) const {
  ops::located("to", *this, where, [] {});
  if (dtype() == target) return *this;
  return ops::invoke(ops::kCopy, {this}, ops::CopyAttributes{target, false}, where);
}

Tensor Tensor::contiguous(Where where) const {
  if (is_contiguous()) return *this;
  return ops::copy_dense(*this, dtype(), where);
}

Tensor& Tensor::copy_(const Tensor& other, Where where) {
  *this = ops::invoke(ops::kCopyInPlace, {this, &other}, {}, where);
  return *this;
}

}  // namespace ferry
