// One step of stochastic gradient descent on one parameter, in place; it runs where the parameter lives.
#pragma once

#include <source_location>

#include <ferry/tensor.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// sgd_: (param mutated, grad same shape, velocity? mutated).
//   g = grad + weight_decay * param; with velocity: v ← momentum * v + (1 - dampening) * g (first step: v ← g),
//   g ← nesterov ? g + momentum * v : v; param ← param - rate * g.
// sgd_rows_: (param [V, D] mutated dense, rows i64 [n] or i32, values [n, D], velocity? [V, D] mutated): the same for
//   the rows given only (lazy). Values of one row add up first, in input order; row -1 is skipped.
struct SgdAttributes {
  double rate = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, first_step = false;
};

extern const OpSchema kSgd, kSgdRows;

// velocity: undefined without momentum. Requires: NoGrad.
void sgd(const Tensor& param, const Tensor& grad, const Tensor& velocity, const SgdAttributes& attributes,
         std::source_location where);
// Touches the rows of `grad` only; the values of a row that occurs several times add up first. Requires: NoGrad.
void sgd_rows(const Tensor& param, const RowSparse& grad, const Tensor& velocity, const SgdAttributes& attributes,
              std::source_location where);

}  // namespace ferry::ops
