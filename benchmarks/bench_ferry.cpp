// ferry's side of the benchmarks.
#include <memory>
#include <utility>

#include <ferry/ferry.h>

#include "benchmarks/optimizers.h"
#include "benchmarks/resnet.h"
#include "benchmarks/sequence.h"
#include "benchmarks/worker.h"
#include "benchmarks/workload.h"

namespace {

using bench::Batch;
using ferry::Tensor;

Batch add8() {
  const Tensor a = ferry::ones({bench::kSmall}), b = ferry::ones({bench::kSmall});
  return [a, b](std::int64_t count) {
    const ferry::NoGrad no_grad;
    return bench::time(count, [&] { const Tensor c = a + b; });
  };
}

Batch chain100() {
  Tensor x = ferry::ones({bench::kSmall}).set_requires_grad();
  return bench::repeat([x]() mutable {
    Tensor y = x;
    for (int i = 0; i < bench::kChain; ++i) y = y + x;
    ferry::sum(y).backward();
    x.zero_grad();
  });
}

Tensor new_table() { return ferry::uniform({bench::kRows, bench::kColumns}, -1, 1); }

Batch embedding_step() {
  std::vector<Tensor> ids;
  for (const auto& batch : bench::id_batches()) ids.push_back(ferry::from_vector(batch));
  Tensor table = new_table().set_requires_grad();
  auto optimizer = std::make_shared<ferry::optim::Sgd>(std::vector<Tensor>{table},
                                                       ferry::optim::SgdOptions{.rate = bench::kLearningRate});
  std::size_t step = 0;
  return bench::repeat([=]() mutable {
    const Tensor rows = ferry::embedding(table, ids[step++ % ids.size()], ferry::GradientKind::row_sparse);
    ferry::mean(ferry::square_error(rows, bench::kTarget)).backward();
    optimizer->step();
    optimizer->zero_grad();
  });
}

// Channels-last in memory, as the results of conv2d are.
Tensor channels_last_leaf(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return ferry::permute(ferry::normal({n, h, w, c}), {0, 3, 1, 2}).detach().set_requires_grad();
}

Batch conv_forward_backward() {
  Tensor x = channels_last_leaf(bench::kImages, bench::kChannels, bench::kExtent, bench::kExtent);
  Tensor weight =
      ferry::normal({bench::kChannels, bench::kChannels, bench::kKernel, bench::kKernel}).set_requires_grad();
  const ferry::Conv2dOptions options{.padding = {bench::kKernel / 2, bench::kKernel / 2}};
  const Tensor gradient = ferry::ones_like(x);
  return bench::repeat([=]() mutable {
    ferry::conv2d(x, weight, {}, options).backward(gradient);
    x.zero_grad();
    weight.zero_grad();
  });
}

Batch matmul() {
  const Tensor a = ferry::normal({bench::kSide, bench::kSide}), b = ferry::normal({bench::kSide, bench::kSide});
  return bench::repeat([a, b] { const Tensor c = ferry::matmul(a, b); });
}

Batch layer_norm() {
  Tensor x = ferry::normal({bench::kNormRows, bench::kFeatures}).set_requires_grad();
  Tensor gamma = ferry::ones({bench::kFeatures}).set_requires_grad(),
         beta = ferry::zeros({bench::kFeatures}).set_requires_grad();
  const Tensor gradient = ferry::normal({bench::kNormRows, bench::kFeatures});
  return bench::repeat([=]() mutable {
    ferry::layer_norm(x, {bench::kFeatures}, gamma, beta).backward(gradient);
    x.zero_grad();
    gamma.zero_grad();
    beta.zero_grad();
  });
}

Batch softmax() {
  Tensor x = ferry::normal({bench::kScoreRows, bench::kScores}).set_requires_grad();
  const Tensor gradient = ferry::normal({bench::kScoreRows, bench::kScores});
  return bench::repeat([=]() mutable {
    ferry::softmax(x).backward(gradient);
    x.zero_grad();
  });
}

Batch table_creation() {
  return bench::repeat([] { const Tensor table = new_table(); });
}

Batch device_guard() {
  return bench::repeat([] { const ferry::DeviceGuard<ferry::cpu> guard; });
}

Batch profiler_event() {
  return [](std::int64_t count) {
    // A new one each time: the events of a batch go with it.
    const ferry::Profiler profiler;
    return bench::time(count, [] { const ferry::Scope scope("event"); });
  };
}

}  // namespace

int main() {
  ferry::Runtime runtime{{.device = "cpu"}};
  bench::Worker({
                    {"add8", add8},
                    {"chain100", chain100},
                    {"embedding_step", embedding_step},
                    {"conv_forward_backward", conv_forward_backward},
                    {"matmul", matmul},
                    {"layer_norm", layer_norm},
                    {"softmax", softmax},
                    {"table_creation", table_creation},
                    {"adamw", bench::adamw},
                    {"attention", bench::attention},
                    {"lstm", bench::lstm},
                    {"transformer_layer", bench::transformer_layer},
                    {"resnet50_step", [] { return bench::resnet50_step(); }},
                    {"resnet50_bf16", [] { return bench::resnet50_step(bench::Precision::bf16); }},
                    {"device_guard", device_guard},
                    {"profiler_event", profiler_event},
                })
      .serve();
}
