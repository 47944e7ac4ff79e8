// The host kernels of optimizers, and of what is done with all gradients at once; contracts in src/ops/optimizer.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void sgd_(const KernelContext&);
void sgd_rows_(const KernelContext&);
void adam_(const KernelContext&);
void adam_rows_(const KernelContext&);
void adagrad_(const KernelContext&);
void adagrad_rows_(const KernelContext&);
void scale_(const KernelContext&);
void unscale_(const KernelContext&);
void clamp_(const KernelContext&);
void square_sum(const KernelContext&);

}  // namespace ferry::cpu_backend
