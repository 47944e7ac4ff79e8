// Parameters, contracts with the kernels (terms as in src/ops/attributes.h) and schemas of transposed convolution and
// resampling.
#pragma once

#include <ferry/convolution.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// conv_transpose2d: (x image [N, I, H, W], w dense [I, O/g, KH, KW], bias? [O]) → y image. Conv2dAttributes, whose
//   convolution maps y to x: the kernel is conv2d_backward_input's, then adds bias.
// conv_transpose2d_backward_input: (dy image, w) → dx image; conv2d's kernel. The weight's gradient is
//   conv2d_backward_weight with x for dy and dy for x.
extern const OpSchema kConvTranspose2d, kConvTranspose2dBackwardInput;

// upsample2d: (x image) → y image. upsample2d_backward: (dy image) → dx image.
struct Upsample2dAttributes {
  UpsampleMode mode = UpsampleMode::nearest;
  bool align_corners = false;
  std::int64_t size[2] = {1, 1};  // of y
  double ratio[2] = {1, 1};       // positions of x an element of y
  // For upsample2d_backward's schema: x's shape and order in memory.
  Shape result{};
  bool channels_last = false;
};
// adaptive_avg_pool2d: (x image) → y image. adaptive_avg_pool2d_backward: (dy image) → dx image.
struct AdaptivePool2dAttributes {
  std::int64_t size[2] = {1, 1};
  Shape result{};
  bool channels_last = false;
};
extern const OpSchema kUpsample2d, kUpsample2dBackward, kAdaptiveAvgPool2d, kAdaptiveAvgPool2dBackward;

}  // namespace ferry::ops
