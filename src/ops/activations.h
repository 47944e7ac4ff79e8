// Schemas and kernel contracts of activations, softmax and dropout; general rules in attributes.h.
#pragma once

#include <cstdint>

#include <ferry/activations.h>
#include "src/ops/attributes.h"
#include "src/ops/op_schema.h"

namespace ferry::ops {

// softmax, log_softmax: (x dense) → y dense; along AxisAttributes' axis, not negative.
// softmax_backward: (dy dense, y dense) → dx = y (dy - Σ dy y). log_softmax_backward: dx = dy - e^y Σ dy.
extern const OpSchema kSoftmax, kSoftmaxBackward, kLogSoftmax, kLogSoftmaxBackward;

// gelu: (x) → y. gelu_backward: (dy, x) → dx.
struct GeluAttributes {
  GeluApproximation approximation = GeluApproximation::none;
};
extern const OpSchema kGelu, kGeluBackward;

// silu: (x) → y. silu_backward: (dy, x) → dx.
extern const OpSchema kSilu, kSiluBackward;

// leaky_relu: (x) → y, the slope, not negative, in ScalarAttributes. leaky_relu_backward: (dy, y) → dx.
extern const OpSchema kLeakyRelu, kLeakyReluBackward;

// dropout: (x dense) → y dense: x / (1 - p) where element offset + i of the stream (as uniform draws it in f32) is not
// below p, else 0. dropout_backward: the same of dy, by the same kernel. 0 < p ≤ 1.
struct DropoutAttributes {
  double p = 0;
  std::uint64_t seed = 0, offset = 0;
};
extern const OpSchema kDropout, kDropoutBackward;

}  // namespace ferry::ops
