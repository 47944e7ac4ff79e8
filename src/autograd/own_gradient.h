// Gradients that are written in place: scaled back, clipped.
#pragma once

#include <source_location>

#include <ferry/tensor.h>

namespace ferry::autograd {

// The elements of a leaf's gradient, dense in memory, which nothing else shows: where something does, the leaf gets a
// copy first. Of a row-sparse gradient the values, of distinct rows if `coalesces`. Undefined without a gradient.
Tensor own_gradient(const Tensor& leaf, bool coalesces, std::source_location where);

}  // namespace ferry::autograd
