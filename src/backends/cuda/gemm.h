// Matrix products by cuBLAS on strided views.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cuda_backend {

// c = alpha a b + beta c for a [B…, M, K], b [B…, K, N], c [B…, M, N] of one float dtype, with equal batch axes; c may
// also be f32 beside 16-bit a and b. A batch stride of 0 repeats a matrix. a and b may have any strides: what cuBLAS
// cannot read as it is, is copied to scratch memory first. Requires: the columns of c are neighbours. 16-bit floats are
// summed in f32; so are f32, by TensorFloat-32 where that is allowed (FERRY_TF32=1). Throws: DeviceError when cuBLAS is
// missing or fails.
void gemm(const KernelContext& context, const TensorView& a, const TensorView& b, const TensorView& c, double alpha = 1,
          double beta = 0);

// Views of the same memory.
TensorView transposed(TensorView view);  // the last two axes
TensorView matrix_view(const TensorView& base, void* data, const Shape& shape, const Strides& strides);

}  // namespace ferry::cuda_backend
