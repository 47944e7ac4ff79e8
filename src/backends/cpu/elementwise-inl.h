// Loops over one row for each functor and dtype, compiled for each instruction set of simd.h. Included once for each.
#if defined(FERRY_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRY_ELEMENTWISE_INL_H_
#undef FERRY_ELEMENTWISE_INL_H_
#else
#define FERRY_ELEMENTWISE_INL_H_
#endif

#include "src/backends/cpu/elementwise.h"
#include "src/backends/cpu/simd.h"
#include "src/kernels/convert.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// The functor for two operands; one of three gets the op's scalar as the last.
template <class Op, class T>
FERRY_FUNCTOR auto binary_functor(double parameter) {
  if constexpr (std::is_invocable_v<Op, T, T, T>) {
    return [scalar = kernels::convert<T>(parameter)](T a, T b) { return Op{}(a, b, scalar); };
  } else {
    return Op{};
  }
}

template <class Op, class T, class Out>
void binary_flat(std::int64_t n, std::byte* y_bytes, const std::byte* a_bytes, const std::byte* b_bytes,
                 double parameter) {
  const auto op = binary_functor<Op, T>(parameter);
  auto* const y = reinterpret_cast<Out*>(y_bytes);
  auto* const a = reinterpret_cast<const T*>(a_bytes);
  auto* const b = reinterpret_cast<const T*>(b_bytes);
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = op(a[i], b[i]);
}

template <class Op, class T, class Out>
void binary_strided(std::int64_t n, std::byte* y_bytes, const std::byte* a_bytes, const std::byte* b_bytes,
                    std::int64_t y_stride, std::int64_t a_stride, std::int64_t b_stride, double parameter) {
  const auto op = binary_functor<Op, T>(parameter);
  constexpr std::int64_t kSize = sizeof(T), kOutSize = sizeof(Out);
  auto* const y = reinterpret_cast<Out*>(y_bytes);
  auto* const a = reinterpret_cast<const T*>(a_bytes);
  auto* const b = reinterpret_cast<const T*>(b_bytes);
  const bool y_dense = y_stride == kOutSize;
  if (y_dense && a_stride == kSize && b_stride == kSize) {
    binary_flat<Op, T, Out>(n, y_bytes, a_bytes, b_bytes, parameter);
  } else if (y_dense && a_stride == kSize && b_stride == 0) {
    const T scalar = *b;
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = op(a[i], scalar);
  } else if (y_dense && a_stride == 0 && b_stride == kSize) {
    const T scalar = *a;
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = op(scalar, b[i]);
  } else {
    const std::int64_t y_step = y_stride / kOutSize, a_step = a_stride / kSize, b_step = b_stride / kSize;
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = op(a[i * a_step], b[i * b_step]);
  }
}

template <class Op, class T>
void unary_flat(std::int64_t n, std::byte* y_bytes, const std::byte* x_bytes, double parameter) {
  auto* const y = reinterpret_cast<T*>(y_bytes);
  auto* const x = reinterpret_cast<const T*>(x_bytes);
  if constexpr (std::is_invocable_v<Op, T, T>) {
    const T scalar = kernels::convert<T>(parameter);
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = Op{}(x[i], scalar);
  } else {
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = Op{}(x[i]);
  }
}

template <class Op, class T>
void unary_strided(std::int64_t n, std::byte* y_bytes, const std::byte* x_bytes, std::int64_t y_stride,
                   std::int64_t x_stride, double parameter) {
  constexpr std::int64_t kSize = sizeof(T);
  if (y_stride == kSize && x_stride == kSize) return unary_flat<Op, T>(n, y_bytes, x_bytes, parameter);
  for (std::int64_t i = 0; i < n; ++i) {
    unary_flat<Op, T>(1, y_bytes + i * y_stride, x_bytes + i * x_stride, parameter);
  }
}

// The tables' rows for the listed dtypes.
template <class Op, class... Ts>
BinaryTable binary_table() {
  BinaryTable table;
  ((table[static_cast<std::size_t>(dtype_of<Ts>)] = {binary_flat<Op, Ts, Ts>, binary_strided<Op, Ts, Ts>}), ...);
  return table;
}

template <class Op, class... Ts>
BinaryTable comparison_table() {
  BinaryTable table;
  ((table[static_cast<std::size_t>(dtype_of<Ts>)] = {binary_flat<Op, Ts, bool>, binary_strided<Op, Ts, bool>}), ...);
  return table;
}

template <class Op, class... Ts>
UnaryTable unary_table() {
  UnaryTable table;
  ((table[static_cast<std::size_t>(dtype_of<Ts>)] = {unary_flat<Op, Ts>, unary_strided<Op, Ts>}), ...);
  return table;
}

// The dtypes of arithmetic; 16-bit floats use float's loops.
template <class Op>
BinaryTable numeric_binary_table() {
  return binary_table<Op, float, double, std::int32_t, std::int64_t, std::uint8_t>();
}
template <class Op>
UnaryTable numeric_unary_table() {
  return unary_table<Op, float, double, std::int32_t, std::int64_t, std::uint8_t>();
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
