#include "src/backends/cuda/kernel_list.h"

#include <vector>

namespace ferry::cuda_backend {

std::span<const KernelEntry> cuda_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all;
    for (const auto part :
         {elementwise_kernels(), movement_kernels(), random_kernels(), loss_kernels(), indexing_kernels(),
          reduction_kernels(), row_kernels(), normalization_kernels(), pooling_kernels(), sparse_kernels(),
          optimizer_kernels(), attention_kernels(), matmul_kernels(), convolution_kernels(), recurrent_kernels()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kAll;
}

}  // namespace ferry::cuda_backend
