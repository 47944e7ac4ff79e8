// Reductions over any axes of a strided array.
//
// The order in which values combine is fixed by shape and strides: runs of at most kRun elements are accumulated in
// lanes that fold pairwise (src/kernels/lanes.h), and the totals of runs combine one after another. Threads never
// change it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

constexpr std::int64_t kRun = 2048;      // elements in a run along a reduced axis
constexpr std::int64_t kColumns = 256;   // outputs that are accumulated side by side
constexpr std::int64_t kColumnRun = 64;  // elements in a run of each

// Loops for one dtype. A total is 8 bytes whatever the dtype.
struct ReduceLoops {
  void (*reset)(std::int64_t n, std::byte* totals) = nullptr;
  void (*combine)(std::int64_t n, std::byte* totals, const std::byte* others) = nullptr;
  // One total of a row of n ≤ kRun elements.
  void (*row)(std::int64_t n, const std::byte* x, std::int64_t stride, std::byte* total) = nullptr;
  // n ≤ kColumns totals of `rows` ≤ kColumnRun elements each.
  void (*columns)(std::int64_t n, std::int64_t rows, const std::byte* x, std::int64_t stride, std::int64_t row_stride,
                  std::byte* totals) = nullptr;
  // y = totals / divisor.
  void (*finish)(std::int64_t n, const std::byte* totals, std::byte* y, std::int64_t stride, double divisor) = nullptr;
};
using ReduceTable = std::array<ReduceLoops, kDTypeCount>;

// (x) → y over the axes whose `reduced` is 1. Throws: InvalidArgument where the table has no loops for x's dtype.
void run_reduction(const KernelContext& context, const ReduceTable& table, double divisor = 1);

}  // namespace ferry::cpu_backend
