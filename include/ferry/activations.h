// Activations, softmax and dropout. Conventions as in ops.h; x is a float tensor of any shape and the result has x's
// shape and dtype. 16-bit floats are computed in f32.
#pragma once

#include <ferry/ops.h>

namespace ferry {

// e^x over its sum along axis, relative to the largest x, so that nothing overflows. Backward keeps the result only.
Tensor softmax(const Tensor& x, int axis = -1, Where where = Where::current());
// Its logarithm, x minus the logarithm of the sum of e^x, without loss where the softmax rounds to 0. Keeps the result
// only.
Tensor log_softmax(const Tensor& x, int axis = -1, Where where = Where::current());

// none: x P(X < x) for X of the standard normal distribution; tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))), as
// GPT-2 uses it. (Hendrycks and Gimpel, "Gaussian error linear units", 2016.) Backward keeps x only.
enum class GeluApproximation : std::uint8_t { none, tanh };
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::none, Where where = Where::current());
// x sigmoid(x). Backward keeps x only.
Tensor silu(const Tensor& x, Where where = Where::current());
// x where it is positive, else slope * x. Backward keeps the result only, unless slope is negative.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Where where = Where::current());

// In training each element is 0 with probability p, else x / (1 - p); otherwise, and for p = 0, x itself at no cost.
// Draws x.numel() numbers of the runtime's stream, those that uniform(x.shape()) would give: an element is kept where
// its number is not below p, whatever the dtype, device and number of threads. No mask is kept: backward draws the same
// numbers again. Throws: InvalidArgument for p outside [0, 1].
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true, Where where = Where::current());

}  // namespace ferry
