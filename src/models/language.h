// What models of text share.
#pragma once

#include <ferry/models.h>

namespace ferry::models {

// What a small instance has in place of the published extents.
struct TransformerExtents {
  std::int64_t vocabulary, positions, layers, features, heads;
};

// Cross entropy of logits [tokens, vocabulary] and labels of any shape with as many elements.
Tensor token_loss(const Tensor& logits, const Tensor& labels);

// Draws every Linear below `module` from a normal distribution, and sets its bias to zero.
void normal_linears(const nn::Module& module, double deviation);

}  // namespace ferry::models
