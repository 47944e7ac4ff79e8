#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/pool2d_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "src/backends/cpu/pool2d.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Lanes that are worked on side by side, so that their results stay in registers or the first-level cache.
constexpr std::int64_t kBlock = 64;

template <class T>
T* element(const PoolPlane& plane, std::int64_t h, std::int64_t w, std::int64_t lane) {
  return static_cast<T*>(plane.data) + h * plane.h + w * plane.w + lane;
}

// Calls body(position, first lane, number of lanes) for all positions of a row and blocks of lanes. The number of a
// full block and that of one lane are constants, with which sums stay in registers.
template <class Body>
void for_each_block(const PoolRow& p, std::int64_t positions, const Body& body) {
  constexpr std::integral_constant<std::int64_t, kBlock> kFull;
  constexpr std::integral_constant<std::int64_t, 1> kOne;
  for (std::int64_t w = 0; w < positions; ++w) {
    std::int64_t lane = 0;
    for (; lane + kBlock <= p.lanes; lane += kBlock) body(w, lane, kFull);
    if (p.lanes == 1) {
      body(w, lane, kOne);
    } else if (lane < p.lanes) {
      body(w, lane, p.lanes - lane);
    }
  }
}

template <class T, class Index>
void max_row(const PoolRow& p) {
  const PoolAxis::Range rows = p.h.window(p.row);
  for_each_block(p, p.w.output, [&](std::int64_t ow, std::int64_t lane, auto n) {
    const PoolAxis::Range columns = p.columns[ow];
    T best[kBlock];
    std::int32_t index[kBlock];
    std::fill_n(best, std::int64_t{n}, -std::numeric_limits<T>::infinity());
    std::fill_n(index, std::int64_t{n}, static_cast<std::int32_t>(rows.begin * p.w.kernel + columns.begin));
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      for (std::int64_t q = columns.begin; q < columns.end; ++q) {
        const T* const x =
            element<const T>(p.x, p.row * p.h.stride - p.h.padding + r, ow * p.w.stride - p.w.padding + q, lane);
        const auto position = static_cast<std::int32_t>(r * p.w.kernel + q);
        for (std::int64_t i = 0; i < n; ++i) {
          // The first NaN wins over all numbers: it is not less than any, and nothing is greater.
          const bool better = !(x[i] <= best[i]) & (best[i] == best[i]);
          best[i] = better ? x[i] : best[i];
          index[i] = better ? position : index[i];
        }
      }
    }
    T* const y = element<T>(p.y, p.row, ow, lane);
    Index* const positions = element<Index>(p.index, p.row, ow, lane);
    for (std::int64_t i = 0; i < n; ++i) y[i] = best[i];
    for (std::int64_t i = 0; i < n; ++i) positions[i] = static_cast<Index>(index[i]);
  });
}

// Gathering into each input position, not scattering from each output, adds in a fixed order and needs no zeroed dx.
template <class T, class Index>
void max_backward_row(const PoolRow& p) {
  const PoolAxis::Range rows = p.h.outputs(p.row);
  for_each_block(p, p.w.input, [&](std::int64_t iw, std::int64_t lane, auto n) {
    const PoolAxis::Range columns = p.columns[iw];
    T sum[kBlock] = {};
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      for (std::int64_t ow = columns.begin; ow < columns.end; ++ow) {
        const T* const dy = element<const T>(p.y, oh, ow, lane);
        const Index* const index = element<const Index>(p.index, oh, ow, lane);
        const auto here = static_cast<Index>((p.row + p.h.padding - oh * p.h.stride) * p.w.kernel + iw + p.w.padding -
                                             ow * p.w.stride);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += index[i] == here ? dy[i] : T{0};
      }
    }
    std::copy_n(sum, std::int64_t{n}, element<T>(p.x, p.row, iw, lane));
  });
}

// One over the number of elements that output (oh, ow) averages; `whole` is that of a whole window.
template <class T>
T weight(const PoolRow& p, std::int64_t oh, std::int64_t ow, T whole) {
  if (p.count_include_pad) return whole;
  const PoolAxis::Range rows = p.h.window(oh), columns = p.w.window(ow);
  return T{1} / static_cast<T>(std::max<std::int64_t>(1, (rows.end - rows.begin) * (columns.end - columns.begin)));
}

template <class T>
T whole_weight(const PoolRow& p) {
  return T{1} / static_cast<T>(p.h.kernel * p.w.kernel);
}

template <class T>
void average_row(const PoolRow& p) {
  const T whole = whole_weight<T>(p);
  const PoolAxis::Range rows = p.h.window(p.row);
  for_each_block(p, p.w.output, [&](std::int64_t ow, std::int64_t lane, auto n) {
    const PoolAxis::Range columns = p.columns[ow];
    T sum[kBlock] = {};
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      for (std::int64_t q = columns.begin; q < columns.end; ++q) {
        const T* const x =
            element<const T>(p.x, p.row * p.h.stride - p.h.padding + r, ow * p.w.stride - p.w.padding + q, lane);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
      }
    }
    const T scale = weight<T>(p, p.row, ow, whole);
    T* const y = element<T>(p.y, p.row, ow, lane);
    for (std::int64_t i = 0; i < n; ++i) y[i] = sum[i] * scale;
  });
}

template <class T>
void average_backward_row(const PoolRow& p) {
  const T whole = whole_weight<T>(p);
  const PoolAxis::Range rows = p.h.outputs(p.row);
  for_each_block(p, p.w.input, [&](std::int64_t iw, std::int64_t lane, auto n) {
    const PoolAxis::Range columns = p.columns[iw];
    T sum[kBlock] = {};
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      for (std::int64_t ow = columns.begin; ow < columns.end; ++ow) {
        const T* const dy = element<const T>(p.y, oh, ow, lane);
        const T scale = weight<T>(p, oh, ow, whole);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += dy[i] * scale;
      }
    }
    std::copy_n(sum, std::int64_t{n}, element<T>(p.x, p.row, iw, lane));
  });
}

template <class T>
PoolLoops loops() {
  return {{max_row<T, std::uint8_t>, max_row<T, std::int32_t>},
          {max_backward_row<T, std::uint8_t>, max_backward_row<T, std::int32_t>},
          average_row<T>,
          average_backward_row<T>};
}

PoolLoops loops_of(DType dtype) { return dtype == DType::f64 ? loops<double>() : loops<float>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(loops_of);

const PoolLoops& pool_loops(DType dtype) {
  static const PoolLoops f32 = HWY_DYNAMIC_DISPATCH(loops_of)(DType::f32);
  static const PoolLoops f64 = HWY_DYNAMIC_DISPATCH(loops_of)(DType::f64);
  return dtype == DType::f64 ? f64 : f32;
}

}  // namespace ferry::cpu_backend
#endif
