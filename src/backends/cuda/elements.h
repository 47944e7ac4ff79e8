// Reading and writing elements: of a type known when a kernel is compiled, or of any integer type. Kernels that need
// not be as fast as memory take the second, so that fewer are compiled.
#pragma once

#include <cstdint>

#include "src/backends/cuda/dispatch.h"
#include "src/kernels/convert.h"
#include "src/kernels/functor.h"

namespace ferry::cuda_backend {

using kernels::Compute;

// As kernels::load and store; 16-bit IEEE floats by the device's own instructions, which round the same.
template <class T>
FERRY_FUNCTOR Compute<T> load(const T& value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  }
#endif
  return static_cast<Compute<T>>(value);
}

template <class T, class C>
FERRY_FUNCTOR T store(C value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>) {
    T narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(static_cast<float>(value)));
    return narrow;
  }
#endif
  return static_cast<T>(value);
}

template <class T>
struct Typed {
  using C = Compute<T>;
  T* data = nullptr;

  static Typed of(const TensorView& view) { return {view.as<T>()}; }
  static C scalar(DType, double value) { return kernels::convert<C>(value); }
  FERRY_FUNCTOR C get(std::int64_t i) const { return load(data[i]); }
  FERRY_FUNCTOR void set(std::int64_t i, C value) const { data[i] = store<T>(value); }
};

// i32, i64 or u8, computed in 64 bits: the low bits of sums and products are those of the narrow type's, which wraps
// around.
struct AnyInteger {
  using C = std::int64_t;
  void* data = nullptr;
  DType dtype = DType::i64;

  static AnyInteger of(const TensorView& view) { return {view.data, view.dtype}; }
  static C scalar(DType dtype, double value) {
    switch (dtype) {
      case DType::i32:
        return kernels::convert<std::int32_t>(value);
      case DType::u8:
        return kernels::convert<std::uint8_t>(value);
      default:
        return kernels::convert<std::int64_t>(value);
    }
  }
  FERRY_FUNCTOR C get(std::int64_t i) const {
    switch (dtype) {
      case DType::i32:
        return static_cast<const std::int32_t*>(data)[i];
      case DType::u8:
        return static_cast<const std::uint8_t*>(data)[i];
      default:
        return static_cast<const std::int64_t*>(data)[i];
    }
  }
  FERRY_FUNCTOR void set(std::int64_t i, C value) const {
    switch (dtype) {
      case DType::i32:
        static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
        return;
      case DType::u8:
        static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value);
        return;
      default:
        static_cast<std::int64_t*>(data)[i] = value;
    }
  }
};

// Calls body(TypeTag<A>) for the A whose elements are of `dtype`.
template <class Body>
void visit_float_elements(const KernelContext& context, DType dtype, const Body& body) {
  visit_floats(context, dtype, [&](auto tag) { body(TypeTag<Typed<typename decltype(tag)::type>>{}); });
}
template <class Body>
void visit_elements(const KernelContext& context, DType dtype, const Body& body) {
  if (dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8) return body(TypeTag<AnyInteger>{});
  visit_float_elements(context, dtype, body);
}

// Functors of one kind of call, of which a launch chooses one. The choice is the same for all threads and costs little
// beside the memory's traffic; a kernel for each would take minutes to compile.
template <class... Ops>
struct OneOf {
  template <class C, class... Args>
  FERRY_FUNCTOR static C call(int which, Args... args) {
    return pick<C, 0, sizeof...(Ops)>(which, args...);
  }
  // The position of Op.
  template <class Op>
  static constexpr int index() {
    int at = 0, found = -1;
    ((found = std::is_same_v<Op, Ops> ? at : found, ++at), ...);
    return found;
  }

 private:
  template <std::size_t kIndex, class First, class... Rest>
  struct Nth : Nth<kIndex - 1, Rest...> {};
  template <class First, class... Rest>
  struct Nth<0, First, Rest...> {
    using type = First;
  };

  template <class C, std::size_t kBegin, std::size_t kEnd, class... Args>
  FERRY_FUNCTOR static C pick(int which, Args... args) {
    if constexpr (kEnd - kBegin == 1) {
      return apply<C, typename Nth<kBegin, Ops...>::type>(args...);
    } else {
      constexpr std::size_t kMiddle = (kBegin + kEnd) / 2;
      if (which < static_cast<int>(kMiddle)) return pick<C, kBegin, kMiddle>(which, args...);
      return pick<C, kMiddle, kEnd>(which, args...);
    }
  }
  // An op's scalar is the last argument; ops without one do not get it.
  template <class C, class Op, class A, class S>
  FERRY_FUNCTOR static C apply(A a, S scalar) {
    if constexpr (std::is_invocable_v<Op, A, S>) return static_cast<C>(Op{}(a, scalar));
    if constexpr (!std::is_invocable_v<Op, A, S>) return static_cast<C>(Op{}(a));
  }
  template <class C, class Op, class A, class B, class S>
  FERRY_FUNCTOR static C apply(A a, B b, S scalar) {
    if constexpr (std::is_invocable_v<Op, A, B, S>) return static_cast<C>(Op{}(a, b, scalar));
    if constexpr (!std::is_invocable_v<Op, A, B, S>) return static_cast<C>(Op{}(a, b));
  }
};

}  // namespace ferry::cuda_backend
