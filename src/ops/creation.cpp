// fill, uniform, normal, arange.
#include <cmath>

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/creation.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_created(InferContext& context, const CreationShape& created) {
  for (const std::int64_t extent : created.shape) {
    FERRY_CHECK(extent >= 0, ShapeError, "{}: shape {} has a negative extent", context.schema.name,
                to_string(created.shape));
  }
  context.add_output(created.shape, created.dtype);
}

void infer_fill(InferContext& context) { infer_created(context, context.attributes.as<FillAttributes>().created); }

void infer_random(InferContext& context) {
  const auto& created = context.attributes.as<RandomAttributes>().created;
  FERRY_CHECK(is_floating(created.dtype), InvalidArgument, "{}: dtype {} is not floating", context.schema.name,
              name_of(created.dtype));
  infer_created(context, created);
}

void infer_arange(InferContext& context) { infer_created(context, context.attributes.as<ArangeAttributes>().created); }

void infer_fill_in_place(InferContext& context) {
  context.require_given(0);
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

Tensor random(const OpSchema& schema, const Shape& shape, double low, double high, DType dtype, Where where) {
  located(schema.name, where, [&] {
    const bool uniform = &schema == &kUniform;
    FERRY_CHECK(uniform ? low <= high : high >= 0, InvalidArgument, "{}: {} {} and {} {}", schema.name,
                uniform ? "low" : "mean", low, uniform ? "a smaller high" : "a negative stddev", high);
    FERRY_CHECK(std::isfinite(low) && std::isfinite(high) && std::isfinite(high - low), InvalidArgument,
                "{}: {} and {} span no finite range", schema.name, low, high);
  });
  const RandomStream stream = draw_random(shape.product());
  const RandomAttributes attributes{low, high, stream.seed, stream.offset, {shape, dtype}};
  return invoke(schema, {}, attributes, where);
}

}  // namespace

const OpSchema kFill{.name = "fill", .op_class = OpClass::fill, .infer = infer_fill};
const OpSchema kFillInPlace{.name = "fill_",
                            .op_class = OpClass::fill,
                            .arguments = {"x"},
                            .infer = infer_fill_in_place,
                            .mutates = 1,
                            .follows_first_input = true,
                            .gradient = [](GradientContext&) {},
                            .autocast = AutocastRule::as_is};
const OpSchema kUniform{.name = "uniform", .op_class = OpClass::fill, .infer = infer_random};
const OpSchema kNormal{.name = "normal", .op_class = OpClass::fill, .infer = infer_random};
const OpSchema kArange{.name = "arange", .op_class = OpClass::fill, .infer = infer_arange};

}  // namespace ferry::ops

namespace ferry {

Tensor full(const Shape& shape, double value, DType dtype, Where where) {
  return ops::invoke(ops::kFill, {}, ops::FillAttributes{value, {shape, dtype}}, where);
}
Tensor zeros(const Shape& shape, DType dtype, Where where) { return full(shape, 0, dtype, where); }
Tensor ones(const Shape& shape, DType dtype, Where where) { return full(shape, 1, dtype, where); }
Tensor zeros_like(const Tensor& x, Where where) {
  return ops::located("zeros_like", x, where, [&] {
    const ops::RuntimeOf runtime(x);
    return full(x.shape(), 0, x.dtype(), where);
  });
}
Tensor ones_like(const Tensor& x, Where where) {
  return ops::located("ones_like", x, where, [&] {
    const ops::RuntimeOf runtime(x);
    return full(x.shape(), 1, x.dtype(), where);
  });
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Where where) {
  return ops::random(ops::kUniform, shape, low, high, dtype, where);
}
Tensor normal(const Shape& shape, double mean, double stddev, DType dtype, Where where) {
  return ops::random(ops::kNormal, shape, mean, stddev, dtype, where);
}

Tensor arange(double start, double stop, double step, DType dtype, Where where) {
  ops::located("arange", where, [&] {
    FERRY_CHECK(step != 0 && std::abs((stop - start) / step) <= 0x1p56, InvalidArgument,
                "arange: start {}, stop {}, step {} give no range of at most 2^56 elements", start, stop, step);
  });
  const auto count = static_cast<std::int64_t>(std::max(0.0, std::ceil((stop - start) / step)));
  return ops::invoke(ops::kArange, {}, ops::ArangeAttributes{start, step, {{count}, dtype}}, where);
}

Tensor& Tensor::fill_(double value, Where where) {
  *this = ops::invoke(ops::kFillInPlace, {this}, ops::FillAttributes{value, {}}, where);
  return *this;
}

}  // namespace ferry
