// Filling and copying strided views on the launch's stream, for kernels made of both.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cuda_backend {

// Every element of `y` becomes `value`, converted as kernels::convert does.
void fill_view(const KernelContext& context, const TensorView& y, double value);

// y = x, converted to y's dtype. Requires: equal shapes.
void copy_view(const KernelContext& context, const TensorView& y, const TensorView& x);

// y = y + x. Requires: equal shapes and float dtypes.
void add_view(const KernelContext& context, const TensorView& y, const TensorView& x);

// The part of `whole` at start + i * step along each axis, i in `shape`.
TensorView part_of(const TensorView& whole, const Dims& starts, const Dims& steps, const Shape& shape);

// A dense view of `shape` in scratch memory, row-major or in the order of `strides`.
TensorView scratch_view(DType dtype, const Shape& shape);
TensorView scratch_view(DType dtype, const Shape& shape, const Strides& strides);

}  // namespace ferry::cuda_backend
