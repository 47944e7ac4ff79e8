// Convolutions by cuDNN, where it is installed and has a deterministic algorithm for the problem.
#pragma once

#include "src/device/kernel.h"
#include "src/ops/attributes.h"

namespace ferry::cuda_backend {

// Whether it is there and was not switched off (FERRY_CUDNN=0).
bool has_cudnn();

// Requires: x and y (or their gradients) are channels-last images, w's elements are [O, KH, KW, C/g]; one float dtype.
// What is written becomes the result + beta * what it was. False where cuDNN is missing or refuses the problem:
// nothing was enqueued then. Throws: DeviceError.
bool cudnn_convolution(const ops::Conv2dAttributes& attributes, const TensorView& x, const TensorView& w,
                       const TensorView& y, double beta);
bool cudnn_input_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& w,
                          const TensorView& dx);
bool cudnn_weight_gradient(const ops::Conv2dAttributes& attributes, const TensorView& dy, const TensorView& x,
                           const TensorView& dw);

}  // namespace ferry::cuda_backend
