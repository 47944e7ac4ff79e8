#include "benchmarks/sequence.h"

#include <vector>

#include <ferry/ferry.h>

using ferry::Tensor;

namespace {

Tensor leaf(const ferry::Shape& shape, double stddev = 1) {
  return ferry::normal(shape, 0, stddev).set_requires_grad();
}

}  // namespace

bench::Batch bench::attention() {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 3; ++i) leaves.push_back(leaf({kSequences, kTokens, kHeads, kHeadWidth}));
  const auto heads = [](const Tensor& x) { return ferry::permute(x, {0, 2, 1, 3}); };
  const Tensor gradient = ferry::ones(heads(leaves[0]).shape());
  return repeat([=]() mutable {
    ferry::scaled_dot_product_attention(heads(leaves[0]), heads(leaves[1]), heads(leaves[2])).backward(gradient);
    for (Tensor& each : leaves) each.zero_grad();
  });
}

bench::Batch bench::lstm() {
  Tensor x = leaf({kLstmSteps, kLstmRows, kLstmUnits});
  std::vector<ferry::RecurrentWeights> weights;
  for (std::int64_t i = 0; i < kLstmLayers; ++i) {
    weights.push_back({leaf({4 * kLstmUnits, kLstmUnits}, 0.05), leaf({4 * kLstmUnits, kLstmUnits}, 0.05),
                       leaf({4 * kLstmUnits}, 0.05), leaf({4 * kLstmUnits}, 0.05)});
  }
  const Tensor gradient = ferry::ones({kLstmSteps, kLstmRows, kLstmUnits});
  return repeat([=]() mutable {
    ferry::lstm(x, {}, weights, {.layers = kLstmLayers}).y.backward(gradient);
    x.zero_grad();
    for (ferry::RecurrentWeights& each : weights) {
      for (Tensor* tensor : {&each.w_ih, &each.w_hh, &each.b_ih, &each.b_hh}) tensor->zero_grad();
    }
  });
}
