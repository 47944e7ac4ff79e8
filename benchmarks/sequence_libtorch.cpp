#include "benchmarks/sequence.h"

#include <cmath>
#include <vector>

#include <torch/torch.h>

using torch::Tensor;

bench::Batch bench::attention() {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 3; ++i) {
    leaves.push_back(torch::randn({kSequences, kTokens, kHeads, kHeadWidth}, torch::requires_grad()));
  }
  const auto heads = [](const Tensor& x) { return x.permute({0, 2, 1, 3}); };
  const Tensor gradient = torch::ones(heads(leaves[0]).sizes());
  return repeat([=]() mutable {
    const Tensor q = heads(leaves[0]) * (1 / std::sqrt(static_cast<double>(kHeadWidth)));
    const Tensor weights = torch::softmax(torch::matmul(q, heads(leaves[1]).transpose(-2, -1)), -1);
    torch::matmul(weights, heads(leaves[2])).backward(gradient);
    for (Tensor& each : leaves) each.mutable_grad() = Tensor();
  });
}

bench::Batch bench::lstm() {
  torch::nn::LSTM layers(torch::nn::LSTMOptions(kLstmUnits, kLstmUnits).num_layers(kLstmLayers));
  const Tensor x = torch::randn({kLstmSteps, kLstmRows, kLstmUnits}, torch::requires_grad());
  const Tensor gradient = torch::ones({kLstmSteps, kLstmRows, kLstmUnits});
  return repeat([=]() mutable {
    std::get<0>(layers(x)).backward(gradient);
    x.mutable_grad() = Tensor();
    for (Tensor& each : layers->parameters()) each.mutable_grad() = Tensor();
  });
}
