// Losses. Conventions as in ops.h; 16-bit inputs are computed in f32 and give f32 losses.
#pragma once

#include <cstdint>

#include <ferry/ops.h>

namespace ferry {

struct CrossEntropyOptions {
  // A position with this label has loss 0, no gradient, and does not count in the mean. It may be a class.
  std::int64_t ignore_index = -100;
  // In [0, 1]: this share of the target is spread evenly over all classes (Szegedy et al., "Rethinking the Inception
  // architecture", 2016).
  double label_smoothing = 0;
  // [C], of the input's dtype or f32 beside 16-bit input: what each class' share of the loss is multiplied by.
  // Undefined for 1.
  Tensor weight{};
  // mean divides by the number of positions that count, or by the sum of their labels' weights. Where none counts it is
  // 0 / 0, NaN, as in PyTorch.
  Reduction reduction = Reduction::mean;
};

// logits: [N, C] or [N, C, …], labels: i64 or i32 [N] or [N, …] of classes → scalar, or labels' shape without
// reduction. With s = label_smoothing, w = weight, y the label and q = log_softmax(logits) along axis 1 the loss of a
// position is
//   -(1 - s) w[y] q[y] - s / C Σ_c w[c] q[c].
// Backward keeps logits and one logarithm of a sum of exponentials a position. Throws: InvalidArgument for a label that
// is neither ignore_index nor in [0, C), and for label_smoothing outside [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {},
                     Where where = Where::current());

// The same of q itself: log_probabilities are used as they are. Backward keeps labels only.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options = {},
                Where where = Where::current());

// logits: any shape, targets: the same shape and dtype, in [0, 1] → scalar, or that shape without reduction:
//   -(pos_weight t log σ(x) + (1 - t) log(1 - σ(x)))
// computed without σ(x), so that far logits neither overflow nor lose their gradient. pos_weight: undefined for 1, else
// of a shape that broadcasts to logits' and of their dtype, or f32 beside 16-bit logits; it gets no gradient.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight = {},
                                        Reduction reduction = Reduction::mean, Where where = Where::current());

}  // namespace ferry
