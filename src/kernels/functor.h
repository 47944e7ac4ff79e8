// What functors of this folder are made of: bodies of kernels for one element, plain C++ that host compilers vectorise
// and CUDA compiles for the device. A value depends on the operands alone, never on the element's position.
#pragma once

#include <cstdint>
#include <type_traits>

#include <ferry/dtype.h>

// Always inlined, so that a body is compiled for the processor that its caller is compiled for.
#if defined(__CUDACC__)
#define FERRY_FUNCTOR __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define FERRY_FUNCTOR [[gnu::always_inline]] inline
#else
#define FERRY_FUNCTOR inline
#endif

namespace ferry::kernels {

template <class T>
constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// The type that arithmetic on a stored T is done in.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

template <class T>
FERRY_FUNCTOR Compute<T> load(const T& value) {
  return static_cast<Compute<T>>(value);
}
template <class T, class C>
FERRY_FUNCTOR T store(C value) {
  return static_cast<T>(value);
}

// Where integer arithmetic wraps around instead of overflowing.
template <class T, bool = std::is_integral_v<T>>
struct WrappingType {
  using type = T;
};
template <class T>
struct WrappingType<T, true> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};
template <class T>
using Wrapping = typename WrappingType<T>::type;

}  // namespace ferry::kernels
