// What autocast needs of autograd, declared here and implemented above in src/autograd.
#pragma once

#include <ferry/tensor.h>

namespace ferry::ops {

// A cast that several graphs share: each backward may pass through it, whatever became of it in an earlier one.
void share_among_backwards(const Tensor& result);
// Tells a GradWatch, if one is on, that `tensor` would be in the graph.
void note_use(const Tensor& tensor);

}  // namespace ferry::ops
