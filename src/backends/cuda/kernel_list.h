// The kernels of the CUDA backend, by the file that has them; contracts in src/ops.
#pragma once

#include <span>

#include "src/device/kernel.h"

namespace ferry::cuda_backend {

std::span<const KernelEntry> elementwise_kernels();    // elementwise.cu
std::span<const KernelEntry> movement_kernels();       // movement.cu
std::span<const KernelEntry> random_kernels();         // random.cu
std::span<const KernelEntry> loss_kernels();           // losses.cu
std::span<const KernelEntry> indexing_kernels();       // indexing.cu
std::span<const KernelEntry> reduction_kernels();      // reduction.cu
std::span<const KernelEntry> row_kernels();            // rows.cu
std::span<const KernelEntry> normalization_kernels();  // normalization.cu
std::span<const KernelEntry> pooling_kernels();        // pooling.cu
std::span<const KernelEntry> sparse_kernels();         // sparse.cu
std::span<const KernelEntry> optimizer_kernels();      // optimizer.cu
std::span<const KernelEntry> attention_kernels();      // attention.cu
std::span<const KernelEntry> matmul_kernels();         // matmul.cpp
std::span<const KernelEntry> convolution_kernels();    // convolution.cu
std::span<const KernelEntry> recurrent_kernels();      // recurrent.cu

// All of them.
std::span<const KernelEntry> cuda_kernels();

}  // namespace ferry::cuda_backend
