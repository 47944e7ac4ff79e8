// sum, mean, max over axes, argmax.
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

Shape reduced_shape(const Shape& shape, const Dims& reduced) {
  Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (reduced[i] != 0) result[i] = 1;
  }
  return result;
}

// Elements of x that each result is made of.
std::int64_t reduced_count(const Shape& shape, const Dims& reduced) {
  std::int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i) count *= reduced[i] != 0 ? shape[i] : 1;
  return count;
}

void infer_reduce(InferContext& context) {
  const Dims& reduced = context.attributes.as<ReduceAttributes>().reduced;
  context.add_output(reduced_shape(context.shape(0), reduced), context.dtype(0));
}

void infer_sum(InferContext& context) {
  FERRY_CHECK(context.dtype(0) != DType::boolean, InvalidArgument,
              "sum: argument 'x' is {}; convert it with .to(dtype)", describe(context.in(0)));
  infer_reduce(context);
}

void infer_mean(InferContext& context) {
  context.require_float(0);
  infer_reduce(context);
}

void infer_max(InferContext& context) {
  context.require_float(0);
  const Dims& reduced = context.attributes.as<ReduceAttributes>().reduced;
  if (reduced_count(context.shape(0), reduced) == 0) context.fail_shape(0, "a maximum of no elements does not exist");
  infer_reduce(context);
}

double reduce_flops(const InferContext& context) { return static_cast<double>(context.shape(0).product()); }

void gradient_sum(GradientContext& context) { context.set(0, expand(context.dy(), context.shape(0), context.where())); }

void gradient_mean(GradientContext& context) {
  const auto count =
      static_cast<double>(reduced_count(context.shape(0), context.attributes<ReduceAttributes>().reduced));
  const Tensor share = mul(context.dy(), 1 / count, context.where());
  context.set(0, expand(share, context.shape(0), context.where()));
}

void gradient_max(GradientContext& context) {
  const Where where = context.where();
  const Tensor hits = equal(context.input(0), context.output(), where).to(context.dtype(0), where);
  const Dims& reduced = context.attributes<ReduceAttributes>().reduced;
  std::vector<int> axes;
  for (int i = 0; i < reduced.rank(); ++i) {
    if (reduced[i] != 0) axes.push_back(i);
  }
  const Tensor ties = axes.empty() ? hits : sum(hits, axes, true, where);
  context.set(0, mul(hits, div(context.dy(), ties, where), where));
}

void infer_argmax(InferContext& context) {
  const int axis = context.attributes.as<AxisAttributes>().axis;
  if (context.shape(0)[axis] == 0) context.fail_shape(0, "a maximum of no elements does not exist");
  Shape shape = context.shape(0);
  shape[axis] = 1;
  context.add_output(shape, DType::i64);
}

// x reduced over `axes`, with those axes dropped unless keepdim.
Tensor reduce(const OpSchema& schema, const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  const Dims reduced = located(schema.name, x, where, [&] {
    Dims flags = Dims::filled(x.rank(), axes.empty() ? 1 : 0);
    for (const int axis : axes) flags[wrap_axis(schema.name, axis, x.rank())] = 1;
    return flags;
  });
  const Tensor y = invoke(schema, {&x}, ReduceAttributes{reduced}, where);
  if (keepdim) return y;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (reduced[i] == 0) shape.push_back(x.shape()[i]);
  }
  return reshape(y, shape, where);
}

}  // namespace

const OpSchema kSum{.name = "sum",
                    .op_class = OpClass::reduction,
                    .arguments = {"x"},
                    .infer = infer_sum,
                    .flops = reduce_flops,
                    .gradient = gradient_sum,
                    .autocast = AutocastRule::f32};
const OpSchema kMean{.name = "mean",
                     .op_class = OpClass::reduction,
                     .arguments = {"x"},
                     .infer = infer_mean,
                     .flops = reduce_flops,
                     .gradient = gradient_mean,
                     .autocast = AutocastRule::f32};
const OpSchema kMax{.name = "max",
                    .op_class = OpClass::reduction,
                    .arguments = {"x"},
                    .infer = infer_max,
                    .flops = reduce_flops,
                    .gradient = gradient_max,
                    .saved_inputs = 1,
                    .saved_outputs = 1,
                    .autocast = AutocastRule::as_is};
const OpSchema kArgmax{
    .name = "argmax", .op_class = OpClass::reduction, .arguments = {"x"}, .infer = infer_argmax, .flops = reduce_flops};

}  // namespace ferry::ops

namespace ferry {

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  return ops::reduce(ops::kSum, x, axes, keepdim, where);
}
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  return ops::reduce(ops::kMean, x, axes, keepdim, where);
}
Tensor max(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  return ops::reduce(ops::kMax, x, axes, keepdim, where);
}

Tensor argmax(const Tensor& x, int axis, Where where) {
  const int wrapped = ops::located("argmax", x, where, [&] { return ops::wrap_axis("argmax", axis, x.rank()); });
  const Tensor y = ops::invoke(ops::kArgmax, {&x}, ops::AxisAttributes{wrapped}, where);
  return select(y, wrapped, 0, where);
}

}  // namespace ferry
