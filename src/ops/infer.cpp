#include "src/base/check.h"
#include "src/ops/op_schema.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {

void InferContext::require_given(std::size_t i) const {
  FERRY_CHECK(given(i), InvalidArgument, "{}: argument '{}' is an undefined tensor", schema.name, schema.argument(i));
}

void InferContext::require_float(std::size_t i) const {
  require_given(i);
  FERRY_CHECK(is_floating(dtype(i)), InvalidArgument, "{}: argument '{}' is {}; it needs f32, f64, f16 or bf16",
              schema.name, schema.argument(i), describe(in(i)));
}

void InferContext::require_integer(std::size_t i) const {
  require_given(i);
  FERRY_CHECK(dtype(i) == DType::i64 || dtype(i) == DType::i32, InvalidArgument,
              "{}: argument '{}' is {}; it needs i64 or i32", schema.name, schema.argument(i), describe(in(i)));
}

void InferContext::require_same_dtype(std::size_t i, std::size_t j) const {
  require_given(i);
  require_given(j);
  FERRY_CHECK(dtype(i) == dtype(j), InvalidArgument,
              "{}: argument '{}' is {} and argument '{}' is {}; they need one dtype (convert with .to(dtype))",
              schema.name, schema.argument(i), describe(in(i)), schema.argument(j), describe(in(j)));
}

void InferContext::require_rank(std::size_t i, int rank) const {
  require_given(i);
  FERRY_CHECK(in(i).rank() == rank, ShapeError, "{}: argument '{}' is {}; it needs {} axes", schema.name,
              schema.argument(i), describe(in(i)), rank);
}

void InferContext::require_vector(std::size_t i, std::int64_t extent, std::size_t j) const {
  if (!given(i)) return;
  FERRY_CHECK(in(i).rank() == 1 && shape(i)[0] == extent, ShapeError,
              "{}: argument '{}' is {} and argument '{}' is {}; the former needs shape [{}]", schema.name,
              schema.argument(i), describe(in(i)), schema.argument(j), describe(in(j)), extent);
  const bool wide = size_of(dtype(j)) == 2 && dtype(i) == DType::f32;
  if (!wide) require_same_dtype(i, j);
}

void InferContext::fail_shapes(std::size_t i, std::size_t j, std::string_view why) const {
  throw ShapeError(fmt::format("{}: argument '{}' is {} and argument '{}' is {}: {}", schema.name, schema.argument(i),
                               describe(in(i)), schema.argument(j), describe(in(j)), why));
}

void InferContext::fail_shape(std::size_t i, std::string_view why) const {
  throw ShapeError(fmt::format("{}: argument '{}' is {}: {}", schema.name, schema.argument(i), describe(in(i)), why));
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  result = longer;
  const int lead = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[lead + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) return false;
    result[lead + i] = x == 1 ? y : x;
  }
  return true;
}

Strides elementwise_strides(const Tensor& input, const Shape& result) {
  const TensorImpl& impl = *input.impl();
  if (impl.shape == result && !impl.is_contiguous() && is_dense(impl.shape, impl.strides)) return impl.strides;
  return contiguous_strides(result);
}

Strides image_strides(const Tensor& input, const Shape& result) {
  const TensorImpl& impl = *input.impl();
  const bool channels_last = !impl.is_contiguous() && impl.strides == channels_last_strides(impl.shape);
  return channels_last ? channels_last_strides(result) : contiguous_strides(result);
}

int wrap_axis(std::string_view op, int axis, int rank) {
  const int wrapped = axis < 0 ? axis + rank : axis;
  FERRY_CHECK(wrapped >= 0 && wrapped < rank, InvalidArgument, "{}: axis {} does not exist in a tensor of {} axes", op,
              axis, rank);
  return wrapped;
}

}  // namespace ferry::ops
