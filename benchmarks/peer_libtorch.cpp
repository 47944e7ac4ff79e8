// libtorch's side of the benchmarks that have a peer.
#include <memory>
#include <utility>

#include <torch/torch.h>

#include "benchmarks/optimizers.h"
#include "benchmarks/resnet_libtorch.h"
#include "benchmarks/sequence.h"
#include "benchmarks/worker.h"
#include "benchmarks/workload.h"

namespace {

using bench::Batch;
using torch::Tensor;

Batch add8() {
  const Tensor a = torch::ones({bench::kSmall}), b = torch::ones({bench::kSmall});
  return [a, b](std::int64_t count) {
    const torch::NoGradGuard no_grad;
    return bench::time(count, [&] { const Tensor c = a + b; });
  };
}

Batch chain100() {
  Tensor x = torch::ones({bench::kSmall}, torch::requires_grad());
  return bench::repeat([x]() mutable {
    Tensor y = x;
    for (int i = 0; i < bench::kChain; ++i) y = y + x;
    y.sum().backward();
    x.mutable_grad() = Tensor();
  });
}

Tensor new_table() {
  const torch::NoGradGuard no_grad;
  return torch::empty({bench::kRows, bench::kColumns}).uniform_(-1, 1);
}

Batch embedding_step() {
  std::vector<Tensor> ids;
  for (const auto& batch : bench::id_batches()) ids.push_back(torch::tensor(batch, torch::kInt64));
  Tensor table = new_table().set_requires_grad(true);
  const Tensor target = torch::full({bench::kIds, bench::kColumns}, bench::kTarget);
  auto optimizer =
      std::make_shared<torch::optim::SGD>(std::vector<Tensor>{table}, torch::optim::SGDOptions(bench::kLearningRate));
  std::size_t step = 0;
  return bench::repeat([=]() mutable {
    const Tensor rows = torch::embedding(table, ids[step++ % ids.size()], -1, false, /*sparse=*/true);
    torch::mse_loss(rows, target).backward();
    optimizer->step();
    table.mutable_grad() = Tensor();
  });
}

Batch conv_forward_backward(torch::MemoryFormat format) {
  const auto new_leaf = [&](torch::IntArrayRef shape) {
    return torch::randn(shape).contiguous(format).set_requires_grad(true);
  };
  Tensor x = new_leaf({bench::kImages, bench::kChannels, bench::kExtent, bench::kExtent});
  Tensor weight = new_leaf({bench::kChannels, bench::kChannels, bench::kKernel, bench::kKernel});
  const Tensor gradient = torch::ones_like(x);
  return bench::repeat([=]() mutable {
    torch::conv2d(x, weight, {}, 1, bench::kKernel / 2).backward(gradient);
    x.mutable_grad() = Tensor();
    weight.mutable_grad() = Tensor();
  });
}

Batch matmul() {
  const Tensor a = torch::randn({bench::kSide, bench::kSide}), b = torch::randn({bench::kSide, bench::kSide});
  return bench::repeat([a, b] { const Tensor c = torch::mm(a, b); });
}

Batch layer_norm() {
  Tensor x = torch::randn({bench::kNormRows, bench::kFeatures}, torch::requires_grad());
  Tensor gamma = torch::ones({bench::kFeatures}, torch::requires_grad()),
         beta = torch::zeros({bench::kFeatures}, torch::requires_grad());
  const Tensor gradient = torch::randn({bench::kNormRows, bench::kFeatures});
  return bench::repeat([=]() mutable {
    torch::layer_norm(x, {bench::kFeatures}, gamma, beta).backward(gradient);
    x.mutable_grad() = Tensor();
    gamma.mutable_grad() = Tensor();
    beta.mutable_grad() = Tensor();
  });
}

Batch softmax() {
  Tensor x = torch::randn({bench::kScoreRows, bench::kScores}, torch::requires_grad());
  const Tensor gradient = torch::randn({bench::kScoreRows, bench::kScores});
  return bench::repeat([=]() mutable {
    torch::softmax(x, -1).backward(gradient);
    x.mutable_grad() = Tensor();
  });
}

Batch table_creation() {
  return bench::repeat([] { const Tensor table = new_table(); });
}

}  // namespace

int main() {
  bench::Worker(
      {
          {"add8", add8},
          {"chain100", chain100},
          {"embedding_step", embedding_step},
          {"conv_forward_backward", [] { return conv_forward_backward(torch::MemoryFormat::Contiguous); }},
          {"conv_forward_backward/channels_last",
           [] { return conv_forward_backward(torch::MemoryFormat::ChannelsLast); }},
          {"matmul", matmul},
          {"layer_norm", layer_norm},
          {"softmax", softmax},
          {"table_creation", table_creation},
          {"adamw", bench::adamw},
          {"attention", bench::attention},
          {"lstm", bench::lstm},
          {"transformer_layer", bench::transformer_layer},
          {"transformer_layer/module", bench::transformer_module},
          {"resnet50_step", [] { return bench::resnet50_step(torch::MemoryFormat::Contiguous); }},
          {"resnet50_step/channels_last", [] { return bench::resnet50_step(torch::MemoryFormat::ChannelsLast); }},
      })
      .serve();
}
