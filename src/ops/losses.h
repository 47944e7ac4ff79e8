// Schemas and kernel contracts of the losses; general rules in attributes.h, formulas in <ferry/losses.h>.
#pragma once

#include <cstdint>
#include <optional>

#include <ferry/losses.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// cross_entropy: (logits [N, C, …] dense, labels i64 or i32 [N, …] dense, weight? [C] dense)
//   → (loss, log_sum_exp, counted?), each of labels' shape. counted is the weight of the label, 0 where it is ignored.
//   A label that is neither ignored nor in [0, C) is InvalidArgument. Outputs have logits' dtype, f32 for 16 bits.
//   softmax_cross_entropy is the same kernel without attributes, for [N, C].
// cross_entropy_backward: (dloss any strides, logits, labels, log_sum_exp dense, weight?) → dlogits.
// nll_loss: (log_probabilities, labels, weight?) → (loss, counted?). nll_loss_backward: (dloss, labels, weight?) →
//   dlog_probabilities.
struct CrossEntropyAttributes {
  std::optional<std::int64_t> ignored{};
  double smoothing = 0;
  // For the schemas; kernels see the same in their outputs.
  bool wants_counted = false;
  Shape result{};  // of nll_loss_backward
  DType dtype = DType::f32;
};
extern const OpSchema kCrossEntropy, kCrossEntropyBackward, kNllLoss, kNllLossBackward;

// binary_cross_entropy_with_logits: (logits, targets, pos_weight?) → loss of logits' dtype, f32 for 16 bits.
// binary_cross_entropy_with_logits_backward: (dloss, logits, targets, pos_weight?) → dlogits.
// All of one shape, any strides. pos_weight may be f32 beside 16-bit logits.
extern const OpSchema kBinaryCrossEntropy, kBinaryCrossEntropyBackward;

}  // namespace ferry::ops
