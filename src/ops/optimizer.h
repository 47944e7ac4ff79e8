// One step of an optimizer on many parameters, in place, in one call; it runs where the caller places it.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>

#include <ferry/tensor.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// The places of a group are
//   dense: param mutated (any strides), grad of its dtype and shape, state0? state1? state2? master? (mutated)
//   rows:  param [V, D] mutated dense, rows i64 or i32 [n], values [n, D] of param's dtype, then the same
// states and master: of param's shape, f32 beside a 16-bit param, else of its dtype; dense. What applies of them:
//   sgd_             velocity? (momentum), -, -
//   adam_, adamw_    exp_avg, exp_avg_sq, max_exp_avg_sq? (amsgrad)
//   adagrad_         sum, -, -
// With a master (16-bit params only) the step is taken on it and the param is what it rounds to. Values of a row that
// is named several times add up first, in input order; row -1 is skipped. All groups of a call agree in which states
// are given.
struct OptimizerAttributes {
  double rate = 0.01;
  double weight_decay = 0;  // added to the gradient
  double epsilon = 0;
  double momentum = 0, dampening = 0;  // sgd
  bool nesterov = false;
  bool first_step = false;                  // the velocity holds nothing yet
  double beta1 = 0, beta2 = 0;              // adam
  double correction1 = 1, correction2 = 1;  // 1 - beta^t
  double shrink = 1;                        // of the parameter before the step: decoupled weight decay
  bool every_row = false;                   // rows: those not named have a gradient of 0; else they are not touched
};

constexpr std::size_t kOptimizerStates = 3;

extern const OpSchema kSgd, kSgdRows, kAdam, kAdamRows, kAdamW, kAdamWRows, kAdagrad, kAdagradRows;

// One parameter's part; undefined states do not apply.
struct OptimizerGroup {
  Tensor param{};
  Tensor grad{};            // dense
  Tensor rows{}, values{};  // row-sparse: instead of grad
  Tensor states[kOptimizerStates]{};
  Tensor master{};
};

// Requires: NoGrad; groups not empty, all dense for a dense schema, all row-sparse for the schema of rows.
void optimizer_step(const OpSchema& schema, std::span<const OptimizerGroup> groups,
                    const OptimizerAttributes& attributes, std::source_location where);

// scale_: groups of (x mutated any strides float, factor f32 [1]): x = x * factor.
// unscale_: groups of (x mutated any strides float, found f32 [1] mutated): x = x * scale; found = 1 if an element of x
//   is not finite, else it stays. One `found` for all groups.
struct UnscaleAttributes {
  double scale = 1;
};
// clamp_: groups of (x mutated any strides float): x into [-limit, limit]; NaN stays.
struct ClampAttributes {
  double limit = 0;
};
// square_sum: (x0, x1, … float) → y f32 [1], f64 where all x are: the sum of all squares, added in an order that
// depends
//   on shapes and strides only.

extern const OpSchema kScaleAll, kUnscaleAll, kClampAll, kSquareSum;

// Requires: NoGrad; xs not empty.
void scale_all(std::span<const Tensor> xs, const Tensor& factor, std::source_location where);
void unscale_all(std::span<const Tensor> xs, const Tensor& found, double scale, std::source_location where);
void clamp_all(std::span<const Tensor> xs, double limit, std::source_location where);
Tensor square_sum(std::span<const Tensor> xs, std::source_location where);

}  // namespace ferry::ops
