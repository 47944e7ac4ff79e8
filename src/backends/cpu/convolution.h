// The host kernels of transposed convolution and resampling; contracts in src/ops/convolution.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// conv_transpose2d.cpp, resample2d.cpp
void conv_transpose2d(const KernelContext&);
void upsample2d(const KernelContext&);
void upsample2d_backward(const KernelContext&);
void adaptive_avg_pool2d(const KernelContext&);
void adaptive_avg_pool2d_backward(const KernelContext&);

}  // namespace ferry::cpu_backend
