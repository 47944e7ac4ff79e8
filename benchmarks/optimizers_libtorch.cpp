#include <memory>

#include <torch/torch.h>

#include "benchmarks/optimizers.h"

bench::Batch bench::adamw() {
  std::vector<torch::Tensor> parameters;
  for (const auto& shape : bert_shapes()) {
    parameters.push_back(torch::randn(shape).set_requires_grad(true));
    parameters.back().mutable_grad() = torch::randn(shape);
  }
  auto optimizer = std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions());
  return repeat([optimizer] { optimizer->step(); });
}
