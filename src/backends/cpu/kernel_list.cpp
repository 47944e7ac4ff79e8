#include "src/backends/cpu/kernel_list.h"

#include "src/backends/cpu/cpu_driver.h"

namespace ferry {
namespace cpu_backend {
namespace {

constexpr KernelEntry kKernels[] = {
    // conv, matmul, pooling, batch norm
    {"matmul", matmul},
    {"linear", linear},
    {"conv2d", conv2d},
    {"conv2d_backward_input", conv2d_backward_input},
    {"conv2d_backward_weight", conv2d_backward_weight},
    {"max_pool2d", max_pool2d},
    {"max_pool2d_backward", max_pool2d_backward},
    {"avg_pool2d", avg_pool2d},
    {"avg_pool2d_backward", avg_pool2d_backward},
    {"batch_norm", batch_norm},
    {"batch_norm_backward", batch_norm_backward},
    {"batch_norm_inference", batch_norm_inference},
    {"running_average_", running_average_},

    // creation and movement
    {"fill", fill},
    {"fill_", fill},
    {"arange", arange},
    {"copy", copy},

    // elementwise
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"div", div},

    // reduction
    {"sum", sum},
    {"mean", mean},
    {"max", max},
};

}  // namespace
}  // namespace cpu_backend

std::span<const KernelEntry> cpu_kernels() { return cpu_backend::kKernels; }

}  // namespace ferry
