// Matrix products of tiles that fit the caches, in the calling thread, compiled for each instruction set of simd.h: for
// kernels that make, use and drop their operands tile by tile. Included once for each.
//
// The right operand comes in panels of panel_width<C>() columns. An element is summed in the order of k, wherever it
// lies in a tile.
#if defined(FERRY_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRY_TILE_GEMM_INL_H_
#undef FERRY_TILE_GEMM_INL_H_
#else
#define FERRY_TILE_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "src/backends/cpu/simd.h"
#include "src/kernels/functor.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kPanelVectors = 2;

// Columns of a panel; rows of a padded right operand and of the result are multiples of it.
template <class C>
constexpr std::int64_t panel_width() {
  return kPanelVectors * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<C>()));
}
template <class C>
constexpr std::int64_t padded_width(std::int64_t columns) {
  return (columns + panel_width<C>() - 1) / panel_width<C>() * panel_width<C>();
}

// a[i][k] at data[i * row + k * step].
template <class C>
struct LeftTile {
  const C* data;
  std::int64_t row, step;
};

// b[k][j] at data[(j / width) * panel + k * row + j % width], width being panel_width<C>().
template <class C>
struct RightTile {
  const C* data;
  std::int64_t panel, row;
};

// Row-major columns of a padded width.
template <class C>
RightTile<C> padded_rows(const C* data, std::int64_t row) {
  return {data, panel_width<C>(), row};
}
// As pack_transposed() and pack_panels() lay them out for `k` rows.
template <class C>
RightTile<C> packed_panels(const C* data, std::int64_t k) {
  return {data, k * panel_width<C>(), panel_width<C>()};
}

enum class Store : std::uint8_t { overwrite, add };

// kRows rows of one panel.
template <int kRows, Store kStore, class C>
HWY_INLINE void multiply_block(std::int64_t k, const LeftTile<C>& a, const C* HWY_RESTRICT b, std::int64_t b_row,
                               C* HWY_RESTRICT y, std::int64_t y_row) {
  const hn::ScalableTag<C> tag;
  using V = hn::Vec<decltype(tag)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  V low[kRows], high[kRows];
  FERRY_UNROLL
  for (int i = 0; i < kRows; ++i) {
    low[i] = kStore == Store::add ? hn::LoadU(tag, y + i * y_row) : hn::Zero(tag);
    high[i] = kStore == Store::add ? hn::LoadU(tag, y + i * y_row + lanes) : hn::Zero(tag);
  }
  const C* left = a.data;
  for (std::int64_t at = 0; at < k; ++at, left += a.step, b += b_row) {
    const V b0 = hn::LoadU(tag, b), b1 = hn::LoadU(tag, b + lanes);
    FERRY_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const V value = hn::Set(tag, left[i * a.row]);
      low[i] = hn::MulAdd(value, b0, low[i]);
      high[i] = hn::MulAdd(value, b1, high[i]);
    }
  }
  FERRY_UNROLL
  for (int i = 0; i < kRows; ++i) {
    hn::StoreU(low[i], tag, y + i * y_row);
    hn::StoreU(high[i], tag, y + i * y_row + lanes);
  }
}

// y [m, n] = or += a [m, k] b [k, n]. n: a multiple of panel_width<C>().
template <Store kStore, class C>
void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, const LeftTile<C>& a, const RightTile<C>& b, C* y,
                   std::int64_t y_row) {
  // As many as 32 or 16 registers hold.
  constexpr int kRows = panel_width<C>() * sizeof(C) >= 128 ? 8 : 4;
  for (std::int64_t j = 0; j < n; j += panel_width<C>()) {
    const C* const panel = b.data + j / panel_width<C>() * b.panel;
    const auto left = [&](std::int64_t i) { return LeftTile<C>{a.data + i * a.row, a.row, a.step}; };
    std::int64_t i = 0;
    for (; i + kRows <= m; i += kRows) {
      multiply_block<kRows, kStore>(k, left(i), panel, b.row, y + i * y_row + j, y_row);
    }
    for (; i + 2 <= m; i += 2) multiply_block<2, kStore>(k, left(i), panel, b.row, y + i * y_row + j, y_row);
    if (i < m) multiply_block<1, kStore>(k, left(i), panel, b.row, y + i * y_row + j, y_row);
  }
}

// --- operands from tensors of storage type T -------------------------------------------------------------------------

// One matrix of a strided array.
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;  // steps in elements

  T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * column; }
};

// to[i][j] = scale * from[i][j], rows of `to` a multiple of the panel's width apart and zero beyond `columns`.
template <class T, class C = kernels::Compute<std::remove_const_t<T>>>
void pack_rows(const Matrix<T>& from, std::int64_t rows, std::int64_t columns, C scale, C* to, std::int64_t to_row) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* const row = from.at(i, 0);
    C* const packed = to + i * to_row;
    if (from.column == 1) {
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < columns; ++j) packed[j] = kernels::load(row[j]) * scale;
    } else {
      for (std::int64_t j = 0; j < columns; ++j) packed[j] = kernels::load(row[j * from.column]) * scale;
    }
    for (std::int64_t j = columns; j < to_row; ++j) packed[j] = C(0);
  }
}

// The transpose of from [n, k] in panels: zero beyond n, up to the end of the last panel.
template <class T, class C = kernels::Compute<std::remove_const_t<T>>>
void pack_transposed(const Matrix<T>& from, std::int64_t n, std::int64_t k, C* to) {
  constexpr std::int64_t kWidth = panel_width<C>();
  for (std::int64_t first = 0; first < n; first += kWidth, to += k * kWidth) {
    const std::int64_t count = n - first < kWidth ? n - first : kWidth;
    if (count < kWidth) {
      for (std::int64_t i = 0; i < k * kWidth; ++i) to[i] = C(0);
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const T* const row = from.at(first + j, 0);
      for (std::int64_t i = 0; i < k; ++i) to[i * kWidth + j] = kernels::load(row[i * from.column]);
    }
  }
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
