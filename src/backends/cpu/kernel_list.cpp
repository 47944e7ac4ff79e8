#include "src/backends/cpu/kernel_list.h"

#include <array>

#include "src/backends/cpu/cpu_driver.h"

namespace ferry {
namespace cpu_backend {
namespace {

constexpr std::array<KernelEntry, 0> kKernels = {
    // conv, matmul, pooling, batch norm

    // all others
};

}  // namespace
}  // namespace cpu_backend

std::span<const KernelEntry> cpu_kernels() { return cpu_backend::kKernels; }

}  // namespace ferry
