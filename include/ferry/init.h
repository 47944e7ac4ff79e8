// Initialisers: fill a parameter with the values that training starts from.
//
// Each writes all elements of `tensor` in place, outside the graph and on the tensor's device, in its dtype. Values are
// drawn from the runtime's random numbers and do not depend on the device.
//
// For fans and gains a tensor is [out, in, receptive field…]: fan in = in × field, fan out = out × field.
#pragma once

#include <cstdint>

#include <ferry/tensor.h>

namespace ferry::init {

void constant(const Tensor& tensor, double value);

// In [low, high). Throws: InvalidArgument for low > high.
void uniform(const Tensor& tensor, double low, double high);

// Throws: InvalidArgument for a negative deviation.
void normal(const Tensor& tensor, double mean, double deviation);

// The normal distribution cut off outside of [low, high], by inversion: mean + deviation √2 erf⁻¹(u), u uniform in
// [erf(l / √2), erf(h / √2)] with l and h the bounds in deviations; erf⁻¹ after Giles, "Approximating the erfinv
// function", 2011. Throws: InvalidArgument unless deviation > 0, low < high and some of [low, high] lies within three
// deviations of the mean.
void truncated_normal(const Tensor& tensor, double mean, double deviation, double low, double high);

enum class Fan : std::uint8_t { in, out };

// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010: variance
// gain² 2 / (fan in + fan out). Throws: ShapeError for a tensor of fewer than two axes.
void xavier_uniform(const Tensor& tensor, double gain = 1);
void xavier_normal(const Tensor& tensor, double gain = 1);

// He et al., "Delving deep into rectifiers", 2015, arXiv:1502.01852: variance 2 / ((1 + slope²) fan), `slope` being
// that of the leaky rectifier that follows, 0 for relu. Throws: ShapeError for a tensor of fewer than two axes.
struct KaimingOptions {
  Fan fan = Fan::in;
  double slope = 0;
};
void kaiming_uniform(const Tensor& tensor, const KaimingOptions& options = {});
void kaiming_normal(const Tensor& tensor, const KaimingOptions& options = {});

// Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2013,
// arXiv:1312.6120: gain times a random matrix [out, in × field] with orthonormal rows, or columns where there are fewer
// of them. Worked out on the host. In timing-only mode nothing is. Throws: ShapeError for fewer than two axes.
void orthogonal(const Tensor& tensor, double gain = 1);

}  // namespace ferry::init
