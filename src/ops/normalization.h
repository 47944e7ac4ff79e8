// Schemas and kernel contracts of layer and group normalisation; general rules in attributes.h.
#pragma once

#include <ferry/normalization.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// layer_norm: (x dense, gamma? dense, beta? dense) → (y dense, mean, inverse_std), statistics of x's leading axes;
// gamma
//   and beta have the trailing `axes` of x's.
// layer_norm_backward: (dy dense, x, gamma?, mean, inverse_std dense) → (dx?, dgamma?, dbeta?).
// group_norm: (x dense [N, C, …] or image, gamma? [C], beta? [C]) → (y like x, mean [N, G], inverse_std [N, G]).
// group_norm_backward: (dy, x, gamma?, mean, inverse_std) → (dx, dgamma?, dbeta?).
// inverse_std = 1 / sqrt(biased variance + epsilon). mean and inverse_std are f32 for 16-bit x, else of x's dtype;
// gamma and beta have x's dtype or f32 beside 16 bits.
struct NormAttributes {
  double epsilon = 1e-5;
  int axes = 1;             // layer_norm
  std::int64_t groups = 1;  // group_norm
  // For the backward schemas; kernels see the same in their outputs.
  bool wants_gamma = false, wants_beta = false;
  DType affine_dtype = DType::f32;
};
extern const OpSchema kLayerNorm, kLayerNormBackward, kGroupNorm, kGroupNormBackward;

}  // namespace ferry::ops
