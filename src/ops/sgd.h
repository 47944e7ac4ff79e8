// One step of stochastic gradient descent on one parameter, in place; it runs where the parameter lives.
#pragma once

#include <source_location>

#include <ferry/tensor.h>
#include "src/ops/attributes.h"

namespace ferry::ops {

// velocity: undefined without momentum. Requires: NoGrad.
void sgd(const Tensor& param, const Tensor& grad, const Tensor& velocity, const SgdAttributes& attributes,
         std::source_location where);
// Touches the rows of `grad` only; the values of a row that occurs several times add up first. Requires: NoGrad.
void sgd_rows(const Tensor& param, const RowSparse& grad, const Tensor& velocity, const SgdAttributes& attributes,
              std::source_location where);

}  // namespace ferry::ops
