// Normalisation by statistics of each element of a batch. Conventions as in ops.h.
//
// Results have x's shape and dtype. Statistics (mean and 1 / sqrt(biased variance + epsilon)) are computed in f32 for
// 16-bit x, and are all that backward keeps beside x and gamma. gamma and beta may be undefined, for 1 and 0, and f32
// beside 16-bit x.
#pragma once

#include <ferry/ops.h>

namespace ferry {

// Over the trailing axes: x: […, normalized_shape…], gamma, beta: normalized_shape.
// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta (Ba, Kiros and Hinton, "Layer normalization", 2016).
// Throws: ShapeError where normalized_shape is not how x's shape ends, or has no axes or elements.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& gamma = {}, const Tensor& beta = {},
                  double epsilon = 1e-5, Where where = Where::current());

// Over `groups` groups of neighbouring channels of each image: x: [N, C, …], gamma, beta: [C] (Wu and He, "Group
// normalization", 2018). Instance normalisation is groups = C. Channels-last images stay so.
// Throws: InvalidArgument unless groups divides C.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma = {}, const Tensor& beta = {},
                  double epsilon = 1e-5, Where where = Where::current());

}  // namespace ferry
