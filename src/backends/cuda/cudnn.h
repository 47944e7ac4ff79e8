// Convolutions, batch normalisation and average pooling by cuDNN, where it is installed and has a deterministic
// algorithm for the problem. Each function returns false where cuDNN is missing or refuses: nothing was enqueued then,
// and kernels of ferry's own do it. Throws: DeviceError.
#pragma once

#include "src/device/kernel.h"
#include "src/ops/attributes.h"
#include "src/ops/convolution.h"

namespace ferry::cuda_backend {

// Whether it is there and was not switched off (FERRY_CUDNN=0).
bool has_cudnn();

// Requires: x and y (or their gradients) are channels-last images, w's elements are [O, KH, KW, C/g]; one float dtype.
// What is written becomes the result + beta * what it was.
bool cudnn_convolution(const ops::Conv2dAttributes& attributes, const TensorView& x, const TensorView& w,
                       const TensorView& y, double beta);
bool cudnn_input_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& w,
                          const TensorView& dx);
bool cudnn_weight_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& x,
                           const TensorView& dw);

// Vectors of a value a channel, f32.
struct ChannelAffine {
  void *gamma, *beta;
};
struct ChannelStatistics {
  void *mean, *inverse_std;
};

// Whether the function below may be asked: for images in 16 bits or f32, with more than one element a channel.
bool normalizes_by_cudnn(const TensorView& x);
// Requires: normalizes_by_cudnn(x); all images are dense, in either order. affine.gamma and the statistics are read,
// both of `gradient` written. The forward direction is not cuDNN's: recomputation needs y again from its statistics,
// bit for bit, which cuDNN does not promise.
bool cudnn_batch_norm_backward(const TensorView& dy, const TensorView& x, const ChannelAffine& affine, double epsilon,
                               const ChannelStatistics& statistics, const TensorView& dx,
                               const ChannelAffine& gradient);

// Requires: dense images, in either order. Maxima are not cuDNN's to find: its gradient of them is not deterministic,
// and it does not say where they were.
bool cudnn_average_pool(const ops::Pool2dAttributes& attributes, const TensorView& x, const TensorView& y);
bool cudnn_average_pool_backward(const ops::Pool2dAttributes& attributes, const TensorView& dy, const TensorView& dx);

}  // namespace ferry::cuda_backend
