#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/half.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/half.h"
#include "src/kernels/functor.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
void widen(std::int64_t n, float* to, const std::byte* x, std::int64_t stride) {
  auto* const from = reinterpret_cast<const T*>(x);
  const std::int64_t step = stride / std::int64_t{sizeof(T)};
  if (step == 1) {
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) to[i] = kernels::load(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = kernels::load(from[i * step]);
  }
}

template <class T>
void narrow(std::int64_t n, std::byte* y, const float* from, std::int64_t stride) {
  auto* const to = reinterpret_cast<T*>(y);
  const std::int64_t step = stride / std::int64_t{sizeof(T)};
  if (step == 1) {
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) to[i] = kernels::store<T>(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * step] = kernels::store<T>(from[i]);
  }
}

void widen_f16(std::int64_t n, float* to, const std::byte* x, std::int64_t stride) { widen<float16>(n, to, x, stride); }
void widen_bf16(std::int64_t n, float* to, const std::byte* x, std::int64_t stride) {
  widen<bfloat16>(n, to, x, stride);
}
void narrow_f16(std::int64_t n, std::byte* y, const float* from, std::int64_t stride) {
  narrow<float16>(n, y, from, stride);
}
void narrow_bf16(std::int64_t n, std::byte* y, const float* from, std::int64_t stride) {
  narrow<bfloat16>(n, y, from, stride);
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_bf16);

void widen_half(DType type, std::int64_t n, float* to, const std::byte* x, std::int64_t stride) {
  if (type == DType::f16) return HWY_DYNAMIC_DISPATCH(widen_f16)(n, to, x, stride);
  HWY_DYNAMIC_DISPATCH(widen_bf16)(n, to, x, stride);
}

void narrow_half(DType type, std::int64_t n, std::byte* y, const float* from, std::int64_t stride) {
  if (type == DType::f16) return HWY_DYNAMIC_DISPATCH(narrow_f16)(n, y, from, stride);
  HWY_DYNAMIC_DISPATCH(narrow_bf16)(n, y, from, stride);
}

}  // namespace ferry::cpu_backend
#endif
