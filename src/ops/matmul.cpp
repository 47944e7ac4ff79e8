// matmul and linear.
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

Shape batch_axes(const Shape& shape) {
  return Dims(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

void infer_matmul(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  const Shape &a = context.shape(0), &b = context.shape(1);
  if (a.rank() < 2 || b.rank() < 2) context.fail_shapes(0, 1, "both need at least 2 axes");
  if (a.back() != b[b.rank() - 2]) {
    context.fail_shapes(0, 1, fmt::format("inner extents {} and {} differ", a.back(), b[b.rank() - 2]));
  }
  Shape shape;
  if (!broadcast_shapes(batch_axes(a), batch_axes(b), shape)) {
    context.fail_shapes(0, 1, "the leading axes do not broadcast");
  }
  shape.push_back(a[a.rank() - 2]);
  shape.push_back(b.back());
  context.add_output(shape, context.dtype(0));
}

double matmul_flops(const InferContext& context) {
  return 2.0 * static_cast<double>(context.output().shape.product()) * static_cast<double>(context.shape(0).back());
}

void gradient_matmul(GradientContext& context) {
  const Where where = context.where();
  if (context.needs(0)) {
    const Tensor da = matmul(context.dy(), transpose(context.input(1), -2, -1, where), where);
    context.set(0, sum_to(da, context.shape(0), where));
  }
  if (context.needs(1)) {
    const Tensor db = matmul(transpose(context.input(0), -2, -1, where), context.dy(), where);
    context.set(1, sum_to(db, context.shape(1), where));
  }
}

void infer_linear(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  context.require_rank(1, 2);
  if (context.shape(0)[1] != context.shape(1)[1]) {
    context.fail_shapes(0, 1, fmt::format("features {} and {} differ", context.shape(0)[1], context.shape(1)[1]));
  }
  context.require_vector(2, context.shape(1)[0], 1);
  context.add_output({context.shape(0)[0], context.shape(1)[0]}, context.dtype(0));
}

void gradient_linear(GradientContext& context) {
  const Where where = context.where();
  if (context.needs(0)) context.set(0, matmul(context.dy(), context.input(1), where));
  if (context.needs(1)) context.set(1, matmul(transpose(context.dy(), 0, 1, where), context.input(0), where));
  if (context.needs(2)) context.set(2, sum(context.dy(), {0}, false, where).to(context.dtype(2), where));
}

}  // namespace

const OpSchema kMatmul{.name = "matmul",
                       .op_class = OpClass::matmul,
                       .arguments = {"a", "b"},
                       .infer = infer_matmul,
                       .broadcasts_batch = true,
                       .flops = matmul_flops,
                       .gradient = gradient_matmul,
                       .saved_inputs = 0b11,
                       .autocast = AutocastRule::low};
const OpSchema kLinear{.name = "linear",
                       .op_class = OpClass::matmul,
                       .arguments = {"x", "weight", "bias"},
                       .infer = infer_linear,
                       .contiguous = 0b111,
                       .flops = matmul_flops,
                       .gradient = gradient_linear,
                       .saved_inputs = 0b11,
                       .autocast = AutocastRule::low};

}  // namespace ferry::ops

namespace ferry {

Tensor matmul(const Tensor& a, const Tensor& b, Where where) { return ops::invoke(ops::kMatmul, {&a, &b}, {}, where); }

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  ops::located("linear", x, where, [&] {
    FERRY_CHECK(x.rank() >= 1, ShapeError, "linear: argument 'x' is {}; it needs at least 1 axis", describe(x));
  });
  if (x.rank() == 2) return ops::invoke(ops::kLinear, {&x, &weight, &bias}, {}, where);
  std::int64_t count = 1;
  for (int i = 0; i < x.rank() - 1; ++i) count *= x.shape()[i];
  const Tensor rows = reshape(x, {count, x.shape().back()}, where);
  const Tensor y = ops::invoke(ops::kLinear, {&rows, &weight, &bias}, {}, where);
  Shape shape = x.shape();
  shape.back() = y.shape()[1];
  return reshape(y, shape, where);
}

}  // namespace ferry
