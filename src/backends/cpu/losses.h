// Host kernels of src/ops/losses.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void cross_entropy(const KernelContext&);
void cross_entropy_backward(const KernelContext&);
void nll_loss(const KernelContext&);
void nll_loss_backward(const KernelContext&);
void binary_cross_entropy(const KernelContext&);
void binary_cross_entropy_backward(const KernelContext&);

}  // namespace ferry::cpu_backend
