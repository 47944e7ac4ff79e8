// Inputs of tests: random arrays, tensors made of them, and the memory layouts in which an op may meet a tensor.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <ferry/tensor.h>
#include "tests/support/references.h"

namespace ferry::test {

using Random = std::mt19937_64;

// Uniform in [low, high); whole numbers for an integer dtype; rounded to what `dtype` holds.
Array random_array(const Shape& shape, double low, double high, DType dtype, Random& random);

// The array's values, converted to `dtype`, in a tensor.
Tensor to_tensor(const Array& array, DType dtype);
// Reads any dtype.
Array to_array(const Tensor& tensor);

// A way in which a tensor of some shape lies in memory: a view of a base tensor.
struct Layout {
  std::string name;
  bool (*fits)(const Shape& shape);
  Shape (*base)(const Shape& shape);
  Tensor (*view)(const Tensor& base, const Shape& shape);
  Array (*view_array)(const Array& base, const Shape& shape);
};

// contiguous, transposed, narrowed, expanded (its first axis has one value), channels-last.
const std::vector<Layout>& layouts();
// The `variant`-th layout that fits `shape`, counted round.
const Layout& layout_for(const Shape& shape, std::size_t variant);

// Distance that rounding may explain, for results of the size of `scale`.
double rounding(DType dtype, double scale);

}  // namespace ferry::test
