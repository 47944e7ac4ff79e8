// Attention. Conventions as in ops.h.
#pragma once

#include <optional>

#include <ferry/ops.h>

namespace ferry {

struct AttentionOptions {
  // Broadcastable to [B…, L, S]. bool: query l may look at key s where it is true. float, of q's dtype or f32: added to
  // the scores, and may require a gradient.
  Tensor mask{};
  // Query l looks at keys 0 … l only.
  bool causal = false;
  // Factor of the scores; 1 / sqrt(D) when empty.
  std::optional<double> scale{};
  // Each weight is 0 with this probability, else weight / (1 - dropout). The numbers are those that
  // uniform([B…, L, S]) would give: a weight is kept where its number is not below dropout. None are kept; backward
  // draws them again. Throws: InvalidArgument outside [0, 1).
  double dropout = 0;
};

// softmax(scale q kᵀ + mask) v, "scaled dot-product attention" (Vaswani et al., "Attention is all you need", 2017).
// q: [B…, L, D], k: [B…, S, D], v: [B…, S, E] → [B…, L, E]; the leading axes (batch and heads) broadcast. float.
//
// A query that may look at no key gives 0, and so does its gradient.
// The [L, S] scores are never kept: they are computed tile by tile with a running softmax (Dao, "FlashAttention-2",
// 2023), and again in backward, which keeps q, k, v, the result and one number a query. q, k and v may have any
// strides: a view of [B, L, H, D] with its axes exchanged is read where it is, and the result and the gradients then
// lie in memory in the order of axes of q, k and v.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {}, Where where = Where::current());

}  // namespace ferry
