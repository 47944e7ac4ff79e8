// From a dtype known when a kernel is launched to a type known when it is compiled.
#pragma once

#include "src/backends/cuda/launch_scope.h"
#include "src/device/kernel.h"

namespace ferry::cuda_backend {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>) for the T of Ts that `dtype` is. Throws: InvalidArgument for another dtype.
template <class... Ts, class Body>
void visit_types(const KernelContext& context, DType dtype, const Body& body) {
  const bool found = ((dtype_of<Ts> == dtype && (body(TypeTag<Ts>{}), true)) || ...);
  if (!found) refuse_dtype(context, dtype);
}

template <class Body>
void visit_floats(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<float, double, float16, bfloat16>(context, dtype, body);
}

template <class Body>
void visit_numbers(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<float, double, float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t>(context, dtype, body);
}

// Elements that are only moved, by their size.
template <class Body>
void visit_words(const KernelContext& context, DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 1:
      return body(TypeTag<std::uint8_t>{});
    case 2:
      return body(TypeTag<std::uint16_t>{});
    case 4:
      return body(TypeTag<std::uint32_t>{});
    case 8:
      return body(TypeTag<std::uint64_t>{});
    default:
      refuse_dtype(context, dtype);
  }
}

// Indices, i64 or i32, dense.
struct Indices {
  const void* data;
  bool wide;  // i64

  explicit Indices(const TensorView& view) : data(view.data), wide(view.dtype == DType::i64) {}
  FERRY_FUNCTOR std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

// A vector of floats of any type that is read as C; null: `otherwise` for every element.
template <class C>
struct Values {
  const void* data = nullptr;
  DType dtype = DType::f32;
  C otherwise = C(0);

  FERRY_FUNCTOR C operator[](std::int64_t i) const {
    if (data == nullptr) return otherwise;
    switch (dtype) {
      case DType::f32:
        return static_cast<C>(static_cast<const float*>(data)[i]);
      case DType::f64:
        return static_cast<C>(static_cast<const double*>(data)[i]);
      case DType::f16:
        return static_cast<C>(static_cast<float>(static_cast<const float16*>(data)[i]));
      default:
        return static_cast<C>(static_cast<float>(static_cast<const bfloat16*>(data)[i]));
    }
  }
};

// The i-th input as such a vector. Requires: dense.
template <class C>
Values<C> values_of(const KernelContext& context, std::size_t i, C otherwise) {
  if (!context.has_input(i)) return {nullptr, DType::f32, otherwise};
  return {context.in(i).data, context.in(i).dtype, otherwise};
}

// A vector of floats of any type that is written from C; null: nothing is.
struct Target {
  void* data = nullptr;
  DType dtype = DType::f32;

  template <class C>
  FERRY_FUNCTOR void set(std::int64_t i, C value) const {
    if (data == nullptr) return;
    switch (dtype) {
      case DType::f32:
        static_cast<float*>(data)[i] = static_cast<float>(value);
        return;
      case DType::f64:
        static_cast<double*>(data)[i] = static_cast<double>(value);
        return;
      case DType::f16:
        static_cast<float16*>(data)[i] = float16(static_cast<float>(value));
        return;
      default:
        static_cast<bfloat16*>(data)[i] = bfloat16(static_cast<float>(value));
    }
  }
};

// The i-th output as such a vector. Requires: dense.
inline Target target_of(const KernelContext& context, std::size_t i) {
  if (!context.has_output(i)) return {};
  return {context.out(i).data, context.out(i).dtype};
}

}  // namespace ferry::cuda_backend
