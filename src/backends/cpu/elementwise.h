// From loops over one row to elementwise kernels: tables of loops by dtype, and the launchers that walk the views.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// y[i] = op(a[i], b[i]) for i in [0, n); `parameter` is the scalar operand where the op has one.
struct BinaryLoops {
  void (*flat)(std::int64_t n, std::byte* y, const std::byte* a, const std::byte* b, double parameter) = nullptr;
  void (*strided)(std::int64_t n, std::byte* y, const std::byte* a, const std::byte* b, std::int64_t y_stride,
                  std::int64_t a_stride, std::int64_t b_stride, double parameter) = nullptr;  // strides in bytes
};
using BinaryTable = std::array<BinaryLoops, kDTypeCount>;

// y[i] = op(x[i]), likewise.
struct UnaryLoops {
  void (*flat)(std::int64_t n, std::byte* y, const std::byte* x, double parameter) = nullptr;
  void (*strided)(std::int64_t n, std::byte* y, const std::byte* x, std::int64_t y_stride, std::int64_t x_stride,
                  double parameter) = nullptr;
};
using UnaryTable = std::array<UnaryLoops, kDTypeCount>;

// (a, b) → y by the loops of a's dtype. Throws: InvalidArgument where the table has none.
void run_binary(const KernelContext& context, const BinaryTable& table, double parameter = 0);

// (x) → y by the loops of x's dtype.
void run_unary(const KernelContext& context, const UnaryTable& table, double parameter = 0);

// Integer division by zero has no result. Throws: InvalidArgument when integers in `divisor` hold 0.
void check_divisor(const KernelContext& context, const TensorView& divisor);

}  // namespace ferry::cpu_backend
