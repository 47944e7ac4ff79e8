// The host kernels of optimizers; contracts in src/ops/sgd.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void sgd_(const KernelContext&);
void sgd_rows_(const KernelContext&);

}  // namespace ferry::cpu_backend
