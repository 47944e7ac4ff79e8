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
void batch_norm_apply(const KernelContext& context);
void batch_norm_backward(const KernelContext& context);
void batch_norm_inference(const KernelContext& context);
void running_average_(const KernelContext& context);

// Creation and movement.
void fill(const KernelContext&);
void arange(const KernelContext&);
void copy(const KernelContext&);
void copy_in_place(const KernelContext&);
void shape(const KernelContext&);
void slice(const KernelContext&);
void slice_backward(const KernelContext&);
void concat(const KernelContext&);
void uniform(const KernelContext&);
void normal(const KernelContext&);

// Elementwise.
void add(const KernelContext&);
void sub(const KernelContext&);
void mul(const KernelContext&);
void div(const KernelContext&);
void maximum(const KernelContext&);
void minimum(const KernelContext&);
void square_error(const KernelContext&);
void square_error_backward(const KernelContext&);
void square_error_scalar(const KernelContext&);
void square_error_scalar_backward(const KernelContext&);
void equal(const KernelContext&);
void greater(const KernelContext&);
void less(const KernelContext&);
void relu_backward(const KernelContext&);
void tanh_backward(const KernelContext&);
void sigmoid_backward(const KernelContext&);
void abs_backward(const KernelContext&);
void neg(const KernelContext&);
void abs(const KernelContext&);
void square(const KernelContext&);
void relu(const KernelContext&);
void exp(const KernelContext&);
void log(const KernelContext&);
void sqrt(const KernelContext&);
void tanh(const KernelContext&);
void sigmoid(const KernelContext&);
void add_scalar(const KernelContext&);
void mul_scalar(const KernelContext&);
void rsub_scalar(const KernelContext&);
void rdiv_scalar(const KernelContext&);
void pow_scalar(const KernelContext&);

// Reduction.
void sum(const KernelContext&);
void mean(const KernelContext&);
void max(const KernelContext&);
void argmax(const KernelContext&);

// Normalisation; losses have a header of their own.
void l2_normalize(const KernelContext&);
void l2_normalize_backward(const KernelContext&);

// Embedding and sparse gradients.
void embedding(const KernelContext&);
void embedding_dense_backward(const KernelContext&);
void embedding_bag(const KernelContext&);
void embedding_bag_backward(const KernelContext&);
void coalesce(const KernelContext&);
void scatter_add_rows_(const KernelContext&);

}  // namespace ferry::cpu_backend
