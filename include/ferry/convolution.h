// Transposed convolution and resampling of images [N, C, H, W].
//
// Conventions as in ferry/ops.h. "float" means f32, f64, f16 or bf16; 16-bit floats are computed in f32.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>

#include <ferry/ops.h>

namespace ferry {

struct ConvTranspose2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, output_padding{0, 0}, dilation{1, 1};  // height, width
  std::int64_t groups = 1;
};
// The gradient of conv2d with respect to its input, as an op of its own (torch.nn.ConvTranspose2d).
// x: [N, I, H, W], weight: [I, O / groups, KH, KW], bias: [O] or undefined → [N, O, OH, OW],
// OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1. output_padding must be smaller than stride
// or dilation. The result is channels-last in memory.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {}, Where where = Where::current());

enum class UpsampleMode : std::uint8_t { nearest, bilinear };
struct Upsample2dOptions {
  std::array<std::int64_t, 2> size{0, 0};  // height and width of the result; 0, 0: by scale
  std::array<double, 2> scale{2, 2};       // the result is floor(extent * scale); not used when size is given
  UpsampleMode mode = UpsampleMode::nearest;
  // bilinear: corner elements keep their places, else the corners of the image do. (torch.nn.functional.interpolate)
  bool align_corners = false;
};
// x: [N, C, H, W] float → [N, C, OH, OW]; also makes images smaller, without smoothing. Element i of the result comes
// from position floor(i r) (nearest), max(0, (i + 1/2) r - 1/2) (bilinear) or i (H - 1) / (OH - 1) (bilinear,
// align_corners), r being H / OH when size is given and 1 / scale else.
Tensor upsample2d(const Tensor& x, const Upsample2dOptions& options = {}, Where where = Where::current());

// Element i of the result is the mean of positions [floor(i H / OH), ceil((i + 1) H / OH)) along height, and likewise
// along width. x: [N, C, H, W] float, output: height and width of the result, any. (torch.nn.AdaptiveAvgPool2d)
Tensor adaptive_avg_pool2d(const Tensor& x, const std::array<std::int64_t, 2>& output, Where where = Where::current());

}  // namespace ferry
