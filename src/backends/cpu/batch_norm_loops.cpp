#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/batch_norm_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "src/backends/cpu/batch_norm.h"
#include "src/kernels/unary.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Channels whose sums are kept side by side in registers, or partial sums of one channel.
constexpr std::int64_t kBlock = 32;

using kernels::Compute;
using kernels::load;
using kernels::store;

template <class C>
double fold(const C* lanes) {
  double sum = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

// Calls body(first channel, number of channels); full blocks get a number the compiler knows.
template <class Body>
void for_each_block(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + kBlock <= channels; c += kBlock) body(c, std::integral_constant<std::int64_t, kBlock>{});
  if (c < channels) body(c, channels - c);
}

template <class T>
void moments(std::int64_t rows, std::int64_t channels, const T* x, double* mean, double* m2) {
  for_each_block(channels, [&](std::int64_t c, auto n) {
    using C = Compute<T>;
    C sum[kBlock] = {}, center[kBlock], squares[kBlock] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x + r * channels + c;
      for (std::int64_t i = 0; i < n; ++i) sum[i] += load(row[i]);
    }
    for (std::int64_t i = 0; i < n; ++i) center[i] = sum[i] / static_cast<C>(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = x + r * channels + c;
      for (std::int64_t i = 0; i < n; ++i) squares[i] += (load(row[i]) - center[i]) * (load(row[i]) - center[i]);
    }
    std::copy_n(center, static_cast<std::int64_t>(n), mean + c);
    std::copy_n(squares, static_cast<std::int64_t>(n), m2 + c);
  });
}

template <class T>
void plane_moments(std::int64_t, std::int64_t count, const T* x, double* mean, double* m2) {
  using C = Compute<T>;
  C sum[kBlock] = {}, squares[kBlock] = {};
  for_each_block(count, [&](std::int64_t at, auto n) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += load(x[at + i]);
  });
  const C center = static_cast<C>(fold(sum) / static_cast<double>(count));
  for_each_block(count, [&](std::int64_t at, auto n) {
    for (std::int64_t i = 0; i < n; ++i) squares[i] += (load(x[at + i]) - center) * (load(x[at + i]) - center);
  });
  *mean = static_cast<double>(center);
  *m2 = fold(squares);
}

template <class T>
void sums(std::int64_t rows, std::int64_t channels, const T* dy, const T* x, const Compute<T>* mean, double* sum,
          double* product) {
  for_each_block(channels, [&](std::int64_t c, auto n) {
    Compute<T> plain[kBlock] = {}, weighted[kBlock] = {}, center[kBlock];
    std::copy_n(mean + c, static_cast<std::int64_t>(n), center);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const gradient = dy + r * channels + c;
      const T* const row = x + r * channels + c;
      for (std::int64_t i = 0; i < n; ++i) plain[i] += load(gradient[i]);
      for (std::int64_t i = 0; i < n; ++i) weighted[i] += load(gradient[i]) * (load(row[i]) - center[i]);
    }
    std::copy_n(plain, static_cast<std::int64_t>(n), sum + c);
    std::copy_n(weighted, static_cast<std::int64_t>(n), product + c);
  });
}

template <class T>
void plane_sums(std::int64_t, std::int64_t count, const T* dy, const T* x, const Compute<T>* mean, double* sum,
                double* product) {
  const Compute<T> center = *mean;
  Compute<T> plain[kBlock] = {}, weighted[kBlock] = {};
  for_each_block(count, [&](std::int64_t at, auto n) {
    for (std::int64_t i = 0; i < n; ++i) plain[i] += load(dy[at + i]);
    for (std::int64_t i = 0; i < n; ++i) weighted[i] += load(dy[at + i]) * (load(x[at + i]) - center);
  });
  *sum = fold(plain);
  *product = fold(weighted);
}

struct AsItIs {
  template <class C>
  C operator()(C x) const {
    return x;
  }
};

template <class T, class After>
void apply(std::int64_t rows, std::int64_t channels, const T* x, const Compute<T>* mean, const Compute<T>* scale,
           const Compute<T>* shift, T* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    FERRY_INDEPENDENT
    for (std::int64_t c = 0; c < channels; ++c) y[c] = store<T>(After{}((load(x[c]) - mean[c]) * scale[c] + shift[c]));
  }
}

template <class T, class After>
void plane_apply(std::int64_t, std::int64_t count, const T* x, const Compute<T>* mean, const Compute<T>* scale,
                 const Compute<T>* shift, T* y) {
  const Compute<T> center = *mean, factor = *scale, offset = *shift;
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = store<T>(After{}((load(x[i]) - center) * factor + offset));
}

template <class T>
void gradient(std::int64_t rows, std::int64_t channels, const T* dy, const T* x, const Compute<T>* mean,
              const Compute<T>* scale, const Compute<T>* slope, const Compute<T>* shift, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r, dy += channels, x += channels, dx += channels) {
    FERRY_INDEPENDENT
    for (std::int64_t c = 0; c < channels; ++c) {
      dx[c] = store<T>(load(dy[c]) * scale[c] + ((load(x[c]) - mean[c]) * slope[c] + shift[c]));
    }
  }
}

template <class T>
void plane_gradient(std::int64_t, std::int64_t count, const T* dy, const T* x, const Compute<T>* mean,
                    const Compute<T>* scale, const Compute<T>* slope, const Compute<T>* shift, T* dx) {
  const Compute<T> center = *mean, factor = *scale, tilt = *slope, offset = *shift;
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i)
    dx[i] = store<T>(load(dy[i]) * factor + ((load(x[i]) - center) * tilt + offset));
}

template <class T>
BatchNormLoops<T> loops() {
  return {{moments<T>, plane_moments<T>},
          {sums<T>, plane_sums<T>},
          {apply<T, AsItIs>, plane_apply<T, AsItIs>},
          {apply<T, kernels::Relu>, plane_apply<T, kernels::Relu>},
          {gradient<T>, plane_gradient<T>}};
}

BatchNormLoops<float> loops_f32() { return loops<float>(); }
BatchNormLoops<double> loops_f64() { return loops<double>(); }
BatchNormLoops<bfloat16> loops_bf16() { return loops<bfloat16>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(loops_f32);
HWY_EXPORT(loops_f64);
HWY_EXPORT(loops_bf16);

template <>
const BatchNormLoops<float>& batch_norm_loops<float>() {
  static const BatchNormLoops<float> loops = HWY_DYNAMIC_DISPATCH(loops_f32)();
  return loops;
}

template <>
const BatchNormLoops<double>& batch_norm_loops<double>() {
  static const BatchNormLoops<double> loops = HWY_DYNAMIC_DISPATCH(loops_f64)();
  return loops;
}

template <>
const BatchNormLoops<bfloat16>& batch_norm_loops<bfloat16>() {
  static const BatchNormLoops<bfloat16> loops = HWY_DYNAMIC_DISPATCH(loops_bf16)();
  return loops;
}

}  // namespace ferry::cpu_backend
#endif
