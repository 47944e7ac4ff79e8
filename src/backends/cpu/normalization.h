// Host kernels of src/ops/normalization.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void layer_norm(const KernelContext&);
void layer_norm_backward(const KernelContext&);
void group_norm(const KernelContext&);
void group_norm_backward(const KernelContext&);

}  // namespace ferry::cpu_backend
