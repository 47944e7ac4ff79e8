#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/row_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "src/backends/cpu/row_loops.h"
#include "src/base/check.h"
#include "src/kernels/functor.h"

#ifndef FERRY_ROW_TABLE
#define FERRY_ROW_TABLE
namespace ferry::cpu_backend {
using RowTable = std::array<RowLoops, kDTypeCount>;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
void sum_rows(std::int64_t width, std::byte* to_bytes, const std::byte* initial_bytes, const std::byte* const* from,
              std::int64_t count, double scale) {
  using C = kernels::Compute<T>;
  constexpr std::int64_t kPiece = 256;
  const C factor = static_cast<C>(scale);
  auto* const to = reinterpret_cast<T*>(to_bytes);
  auto* const initial = reinterpret_cast<const T*>(initial_bytes);
  alignas(64) C sums[kPiece];
  for (std::int64_t begin = 0; begin < width; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, width - begin);
    for (std::int64_t j = 0; j < n; ++j) sums[j] = initial != nullptr ? kernels::load(initial[begin + j]) : C(0);
    for (std::int64_t r = 0; r < count; ++r) {
      auto* const row = reinterpret_cast<const T*>(from[r]) + begin;
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < n; ++j) sums[j] += kernels::load(row[j]);
    }
    FERRY_INDEPENDENT
    for (std::int64_t j = 0; j < n; ++j) to[begin + j] = kernels::store<T>(sums[j] * factor);
  }
}

RowTable row_table() {
  RowTable table;
  table[static_cast<int>(DType::f32)] = {sum_rows<float>};
  table[static_cast<int>(DType::f64)] = {sum_rows<double>};
  table[static_cast<int>(DType::f16)] = {sum_rows<float16>};
  table[static_cast<int>(DType::bf16)] = {sum_rows<bfloat16>};
  return table;
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(row_table);

const RowLoops& row_loops(DType dtype) {
  static const RowTable table = HWY_DYNAMIC_DISPATCH(row_table)();
  FERRY_CHECK(is_floating(dtype), InvalidArgument, "rows of {} have no host kernel; they must be floats",
              name_of(dtype));
  return table[static_cast<std::size_t>(dtype)];
}

}  // namespace ferry::cpu_backend
#endif
