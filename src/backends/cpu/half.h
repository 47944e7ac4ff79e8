// Rows of 16-bit floats to and from float: elementwise kernels compute them in float, a piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/dtype.h>

namespace ferry::cpu_backend {

constexpr bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }

constexpr std::int64_t kHalfPiece = 512;  // elements that are converted together, to stay in the first-level cache

// to[i] = x[i] and y[i] = from[i] for i in [0, n). Strides in bytes. Requires: is_half(type).
void widen_half(DType type, std::int64_t n, float* to, const std::byte* x, std::int64_t stride);
void narrow_half(DType type, std::int64_t n, std::byte* y, const float* from, std::int64_t stride);

}  // namespace ferry::cpu_backend
