#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/conv2d_depthwise_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "src/backends/cpu/conv2d_depthwise.h"
#include "src/kernels/functor.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Channels whose sums stay in registers.
constexpr std::int64_t kBlock = 64;

// Calls body(first channel, number of channels) for blocks of channels; the number of a full one is a constant.
template <class Body>
void for_each_block(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + kBlock <= channels; c += kBlock) body(c, std::integral_constant<std::int64_t, kBlock>{});
  if (c < channels) body(c, channels - c);
}

template <class T>
void input_row(const DepthwiseInputRow& p) {
  auto* const dy = reinterpret_cast<const T*>(p.dy);
  auto* const dx = reinterpret_cast<T*>(p.dx);
  const std::int64_t channels = p.channels;
  for (std::int64_t iw = 0; iw < p.w.input; ++iw) {
    for_each_block(channels, [&](std::int64_t c, auto n) {
      float sum[kBlock] = {};
      for (std::int64_t r = 0; r < p.h.kernel; ++r) {
        const std::int64_t oh = p.h.target(p.row, r);
        if (oh < 0) continue;
        for (std::int64_t q = 0; q < p.w.kernel; ++q) {
          const std::int64_t ow = p.columns[iw * p.w.kernel + q];
          if (ow < 0) continue;
          const T* const from = dy + (oh * p.w.output + ow) * channels + c;
          const float* const weight = p.weight + (r * p.w.kernel + q) * channels + c;
          for (std::int64_t i = 0; i < n; ++i) sum[i] += kernels::load(from[i]) * weight[i];
        }
      }
      T* const to = dx + iw * channels + c;
      for (std::int64_t i = 0; i < n; ++i) to[i] = kernels::store<T>(sum[i]);
    });
  }
}

// Adds term(i, j) over j in [begin, end) to to[i].
template <class N, class Term>
void add_run(N n, std::int64_t begin, std::int64_t end, float* to, const Term& term) {
  float sum[kBlock] = {};
  for (std::int64_t j = begin; j < end; ++j) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += term(i, j);
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] += sum[i];
}

// Outputs along an axis whose kernel position k reads inside the input.
struct TapRun {
  std::int64_t begin, end;
};
TapRun run_of(const DepthwiseAxis& axis, std::int64_t k) {
  const std::int64_t first = axis.source(0, k), last = axis.input - 1 - first;
  const std::int64_t begin = first < 0 ? (-first + axis.stride - 1) / axis.stride : 0;
  return {begin, last < 0 ? 0 : std::min(axis.output, last / axis.stride + 1)};
}

template <class T>
void weight_row(const DepthwiseWeightSum& p, const T* x, const T* dy, std::int64_t oh) {
  const std::int64_t channels = p.channels;
  const T* const dy_row = dy + oh * p.w.output * channels;
  for_each_block(channels, [&](std::int64_t c, auto n) {
    for (std::int64_t r = 0; r < p.h.kernel; ++r) {
      const std::int64_t ih = p.h.source(oh, r);
      if (ih < 0 || ih >= p.h.input) continue;
      for (std::int64_t q = 0; q < p.w.kernel; ++q) {
        const TapRun run = run_of(p.w, q);
        const T* const from = x + (ih * p.w.input + p.w.source(0, q)) * channels + c;
        const std::int64_t step = p.w.stride * channels;
        add_run(n, run.begin, run.end, p.weight + (r * p.w.kernel + q) * channels + c,
                [&](std::int64_t i, std::int64_t ow) {
                  return kernels::load(dy_row[ow * channels + c + i]) * kernels::load(from[ow * step + i]);
                });
      }
    }
    if (p.bias == nullptr) return;
    add_run(n, 0, p.w.output, p.bias + c,
            [&](std::int64_t i, std::int64_t ow) { return kernels::load(dy_row[ow * channels + c + i]); });
  });
}

template <class T>
void weight_sum(const DepthwiseWeightSum& p) {
  for (std::int64_t n = 0; n < p.images; ++n) {
    auto* const x = reinterpret_cast<const T*>(p.x) + n * p.h.input * p.w.input * p.channels;
    auto* const dy = reinterpret_cast<const T*>(p.dy) + n * p.h.output * p.w.output * p.channels;
    for (std::int64_t oh = 0; oh < p.h.output; ++oh) weight_row(p, x, dy, oh);
  }
}

DepthwiseLoops depthwise_loops_of(DType dtype) {
  if (dtype == DType::bf16) return {input_row<bfloat16>, weight_sum<bfloat16>};
  return {input_row<float>, weight_sum<float>};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(depthwise_loops_of);

const DepthwiseLoops& depthwise_loops(DType dtype) {
  static const DepthwiseLoops f32 = HWY_DYNAMIC_DISPATCH(depthwise_loops_of)(DType::f32);
  static const DepthwiseLoops bf16 = HWY_DYNAMIC_DISPATCH(depthwise_loops_of)(DType::bf16);
  return dtype == DType::bf16 ? bf16 : f32;
}

}  // namespace ferry::cpu_backend
#endif
