// Host kernels of src/ops/activations.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void softmax(const KernelContext&);
void softmax_backward(const KernelContext&);
void log_softmax(const KernelContext&);
void log_softmax_backward(const KernelContext&);
void gelu(const KernelContext&);
void gelu_backward(const KernelContext&);
void silu(const KernelContext&);
void silu_backward(const KernelContext&);
void leaky_relu(const KernelContext&);
void leaky_relu_backward(const KernelContext&);
void dropout(const KernelContext&);

}  // namespace ferry::cpu_backend
