// The order in memory of what movement ops give.
#pragma once

#include <ferry/shape.h>
#include <ferry/tensor.h>

namespace ferry::ops {

// Strides for a result of x's elements or some of them: channels-last where x is an image [N, C, H, W], or a part of
// one, whose channels are innermost; else row-major.
Strides movement_strides(const Tensor& x, const Shape& result);

}  // namespace ferry::ops
