// Setting and copying strided arrays, as steps of other kernels.
#pragma once

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Every element of y is `value`, converted to y's dtype.
void fill_view(const TensorView& y, double value);

// y[i] = x[i], converted. Requires: equal shapes; y and x do not overlap.
void copy_view(const TensorView& y, const TensorView& x);

}  // namespace ferry::cpu_backend
