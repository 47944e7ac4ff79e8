// The host kernels of indexing ops; contracts in src/ops/indexing.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void gather(const KernelContext&);
void gather_backward(const KernelContext&);
void index_select(const KernelContext&);
void index_select_backward(const KernelContext&);
void where(const KernelContext&);
void masked_fill(const KernelContext&);
void pad(const KernelContext&);
void pad_backward(const KernelContext&);

}  // namespace ferry::cpu_backend
