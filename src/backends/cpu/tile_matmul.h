// Matrix products by the tile loops of tile_gemm-inl.h, in parallel over matrices and blocks of them: for element types
// that oneDNN does not take, and for many small matrices, which oneDNN would compute one after the other.
#pragma once

#include "src/backends/cpu/matmul_problem.h"
#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// y = a b, + bias [n] where it is given. dtype: f32 or f64, that of all. Requires: k > 0.
void tile_matmul(const BatchedMatmul& matmul, DType dtype, const TensorView& bias);

}  // namespace ferry::cpu_backend
