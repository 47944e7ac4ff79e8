// In place of the files on cuDNN where the library's headers are not installed.
#include "src/backends/cuda/cudnn.h"

namespace ferry::cuda_backend {

bool has_cudnn() { return false; }

bool cudnn_convolution(const ops::Conv2dAttributes&, const TensorView&, const TensorView&, const TensorView&, double) {
  return false;
}
bool cudnn_input_gradient(const ops::Conv2dAttributes&, const TensorView&, const TensorView&, const TensorView&) {
  return false;
}
bool cudnn_weight_gradient(const ops::Conv2dAttributes&, const TensorView&, const TensorView&, const TensorView&) {
  return false;
}

bool normalizes_by_cudnn(const TensorView&) { return false; }
bool cudnn_batch_norm_backward(const TensorView&, const TensorView&, const ChannelAffine&, double,
                               const ChannelStatistics&, const TensorView&, const ChannelAffine&) {
  return false;
}
bool cudnn_average_pool(const ops::Pool2dAttributes&, const TensorView&, const TensorView&) { return false; }
bool cudnn_average_pool_backward(const ops::Pool2dAttributes&, const TensorView&, const TensorView&) { return false; }

}  // namespace ferry::cuda_backend
