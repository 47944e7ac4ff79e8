// Arithmetic of row-sparse gradients, for autograd and the optimizers.
#pragma once

#include <source_location>

#include <ferry/tensor.h>

namespace ferry::ops {

// dense[rows[i]] += values[i], in place.
void scatter_add_rows(const Tensor& dense, const RowSparse& rows, std::source_location where);

// a + b, by placing their rows one behind the other.
RowSparse concatenated(const RowSparse& a, const RowSparse& b, std::source_location where);

}  // namespace ferry::ops
