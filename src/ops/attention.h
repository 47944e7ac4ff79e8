// Schemas and kernel contracts of attention; general rules in attributes.h.
#pragma once

#include <cstdint>

#include "src/ops/attributes.h"
#include "src/ops/op_schema.h"

namespace ferry::ops {

// scaled_dot_product_attention: (q [B…, L, D], k [B…, S, D], v [B…, S, E], mask? [B…, L, S]) →
//     (y [B…, L, E], log_sum_exp [B…, L] f32, f64 for f64 q).
//   y = softmax(scale q kᵀ + mask) v over keys that the mask (bool: where true) and `causal` (key ≤ query) allow;
//   log_sum_exp is that of a query's scores, +infinity where no key is allowed: y is 0 there. B… are equal in all; any
//   strides; y in the order of q's axes.
//   With dropout > 0, weight i of the row-major [B…, L, S] is 0 where element offset + i of the stream (as uniform
//   draws it in f32) is below dropout, else divided by 1 - dropout; log_sum_exp does not see that.
// scaled_dot_product_attention_backward: (dy, q, k, v, y, log_sum_exp, mask?) → (dq?, dk?, dv?, dmask? [B…, L, S]),
// each in the order of
//   axes of the forward argument.
struct AttentionAttributes {
  double scale = 1;
  double dropout = 0;
  std::uint64_t seed = 0, offset = 0;
  bool causal = false;
  bool wants[4] = {};  // backward: which gradients
};
extern const OpSchema kAttention, kAttentionBackward;

}  // namespace ferry::ops
