#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/resample2d_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "src/backends/cpu/resample2d.h"
#include "src/base/check.h"
#include "src/kernels/lanes.h"

#ifndef FERRY_RESAMPLE_TABLE
#define FERRY_RESAMPLE_TABLE
namespace ferry::cpu_backend {
using ResampleTable = std::array<ResampleLoop, kDTypeCount>;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Lanes whose sums stay in registers.
constexpr std::int64_t kBlock = 64;
// From this many elements on, a sum of one lane is worth several partial sums.
constexpr std::int64_t kLongSum = 2 * kernels::kLanes;

// The rows of x that y's row is made of, combined: Σ weight x[r][i], in `to` unless that is a row of x.
template <class T, class C>
const C* combine_rows(const ResampleRow& r, C* to) {
  const auto o = static_cast<std::size_t>(r.row);
  const std::int64_t begin = r.h.begin[o], count = r.h.begin[o + 1] - begin;
  auto* const rows = reinterpret_cast<const T*>(r.x) + r.h.first[o] * r.x_row;
  if constexpr (std::is_same_v<T, C>) {
    if (count == 1 && r.h.weight[static_cast<std::size_t>(begin)] == 1) return rows;
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const C weight = static_cast<C>(r.h.weight[static_cast<std::size_t>(begin + k)]);
    const T* const x = rows + k * r.x_row;
    if (k == 0) {
      FERRY_INDEPENDENT
      for (std::int64_t i = 0; i < r.elements; ++i) to[i] = weight * kernels::load(x[i]);
    } else {
      FERRY_INDEPENDENT
      for (std::int64_t i = 0; i < r.elements; ++i) to[i] += weight * kernels::load(x[i]);
    }
  }
  if (count == 0) std::fill_n(to, r.elements, C(0));
  return to;
}

template <class C>
C weighted_sum(const C* x, const double* weight, std::int64_t count) {
  const auto term = [&](std::int64_t k) { return static_cast<C>(weight[k]) * x[k]; };
  if (count >= kLongSum) return kernels::lane_sum<C>(count, term);
  C sum = C(0);
  for (std::int64_t k = 0; k < count; ++k) sum += term(k);
  return sum;
}

// Lanes [0, n) of one output.
template <class N, class T, class C>
void combine_block(N n, const C* x, const double* weight, std::int64_t count, std::int64_t lanes, T* y) {
  C sum[kBlock] = {};
  for (std::int64_t k = 0; k < count; ++k) {
    const C w = static_cast<C>(weight[k]);
    const C* const from = x + k * lanes;
    for (std::int64_t i = 0; i < n; ++i) sum[i] += w * from[i];
  }
  for (std::int64_t i = 0; i < n; ++i) y[i] = kernels::store<T>(sum[i]);
}

template <class T, class C>
void combine_lanes(const C* x, const double* weight, std::int64_t count, std::int64_t lanes, T* y) {
  if (count == 1) {
    const C w = static_cast<C>(*weight);
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < lanes; ++i) y[i] = kernels::store<T>(w * x[i]);
    return;
  }
  std::int64_t lane = 0;
  for (; lane + kBlock <= lanes; lane += kBlock) {
    combine_block(std::integral_constant<std::int64_t, kBlock>{}, x + lane, weight, count, lanes, y + lane);
  }
  if (lane < lanes) combine_block(lanes - lane, x + lane, weight, count, lanes, y + lane);
}

template <class T>
void resample_row(const ResampleRow& r) {
  using C = kernels::Compute<T>;
  thread_local std::vector<C> row;
  row.resize(static_cast<std::size_t>(r.elements));
  const C* const combined = combine_rows<T>(r, row.data());
  auto* const y = reinterpret_cast<T*>(r.y);
  const std::int64_t outputs = r.w.outputs();
  for (std::int64_t o = 0; o < outputs; ++o) {
    const auto at = static_cast<std::size_t>(o);
    const std::int64_t begin = r.w.begin[at], count = r.w.begin[at + 1] - begin;
    const C* const x = combined + r.w.first[at] * r.lanes;
    const double* const weight = r.w.weight.data() + begin;
    if (r.lanes == 1) {
      y[o] = kernels::store<T>(weighted_sum(x, weight, count));
    } else {
      combine_lanes(x, weight, count, r.lanes, y + o * r.lanes);
    }
  }
}

ResampleTable resample_table() {
  return {resample_row<float>, resample_row<double>, resample_row<float16>, resample_row<bfloat16>};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(resample_table);

ResampleLoop resample_loop(DType dtype) {
  static const ResampleTable table = HWY_DYNAMIC_DISPATCH(resample_table)();
  FERRY_CHECK(is_floating(dtype), InvalidArgument, "images of {} cannot be resampled; they must be floats",
              name_of(dtype));
  return table[static_cast<std::size_t>(dtype)];
}

}  // namespace ferry::cpu_backend
#endif
