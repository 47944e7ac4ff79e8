// The host kernels, one declaration each; contracts in src/ops/attributes.h.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// matmul.cpp, conv2d.cpp, pool2d.cpp, batch_norm.cpp
void matmul(const KernelContext& context);
void linear(const KernelContext& context);
void conv2d(const KernelContext& context);
void conv2d_backward_input(const KernelContext& context);
void conv2d_backward_weight(const KernelContext& context);
void max_pool2d(const KernelContext& context);
void max_pool2d_backward(const KernelContext& context);
void avg_pool2d(const KernelContext& context);
void avg_pool2d_backward(const KernelContext& context);
void batch_norm(const KernelContext& context);
void batch_norm_backward(const KernelContext& context);
void batch_norm_inference(const KernelContext& context);
void running_average_(const KernelContext& context);

// Creation and movement.
void fill(const KernelContext&);
void arange(const KernelContext&);
void copy(const KernelContext&);

// Elementwise.
void add(const KernelContext&);
void sub(const KernelContext&);
void mul(const KernelContext&);
void div(const KernelContext&);

// Reduction.
void sum(const KernelContext&);
void mean(const KernelContext&);
void max(const KernelContext&);

}  // namespace ferry::cpu_backend
