// Reductions besides sum, mean, max and argmax of ops.h. Conventions as there: over `axes`, all of them when empty,
// which keep extent 1 with keepdim. x is a float tensor; 16-bit floats are added in f32.
#pragma once

#include <vector>

#include <ferry/ops.h>

namespace ferry {

// The gradient goes to every element that equals the minimum, shared equally.
Tensor min(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, Where where = Where::current());

// Σ (x - mean)² / (n - correction) for n elements: correction 1 is the unbiased estimate, 0 the variance of what is
// there. NaN where n is 0, NaN or infinite where n - correction is.
Tensor variance(const Tensor& x, const std::vector<int>& axes = {}, double correction = 1, bool keepdim = false,
                Where where = Where::current());

// ln Σ e^x, relative to the largest x. Throws: ShapeError for a maximum of no elements.
Tensor logsumexp(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false,
                 Where where = Where::current());

// The Euclidean length, sqrt(Σ x²). Its gradient at length 0 is 0.
Tensor norm(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, Where where = Where::current());

}  // namespace ferry
