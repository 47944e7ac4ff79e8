#include "benchmarks/sequence.h"

#include <cmath>
#include <vector>

#include <torch/torch.h>

using torch::Tensor;

namespace {

Tensor leaf(torch::IntArrayRef shape, double stddev = 1) {
  return (torch::randn(shape) * stddev).detach().set_requires_grad(true);
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scaled = q * (1 / std::sqrt(static_cast<double>(bench::kHeadWidth)));
  return torch::matmul(torch::softmax(torch::matmul(scaled, k.transpose(-2, -1)), -1), v);
}

struct Projection {
  Tensor weight, bias;

  Projection(std::int64_t from, std::int64_t to) : weight(leaf({to, from}, 0.02)), bias(leaf({to}, 0.02)) {}
  Tensor operator()(const Tensor& x) const { return torch::linear(x, weight, bias); }
};

struct Norm {
  Tensor gamma = leaf({bench::kModelWidth}), beta = leaf({bench::kModelWidth});

  Tensor operator()(const Tensor& x) const { return torch::layer_norm(x, {bench::kModelWidth}, gamma, beta); }
};

struct TransformerLayer {
  Projection in{bench::kModelWidth, 3 * bench::kModelWidth}, out = {bench::kModelWidth, bench::kModelWidth};
  Projection up{bench::kModelWidth, bench::kInnerWidth}, down = {bench::kInnerWidth, bench::kModelWidth};
  Norm after_attention, after_inner;

  Tensor operator()(const Tensor& x) const {
    std::vector<Tensor> heads;
    for (const Tensor& each : in(x).chunk(3, -1)) {
      heads.push_back(
          each.view({bench::kSequences, bench::kSequenceLength, bench::kHeads, bench::kHeadWidth}).transpose(1, 2));
    }
    const Tensor joined = attend(heads[0], heads[1], heads[2]).transpose(1, 2).reshape(x.sizes());
    const Tensor middle = after_attention(x + out(joined));
    return after_inner(middle + down(torch::gelu(up(middle))));
  }

  void zero_grad() {
    for (Projection* each : {&in, &out, &up, &down}) each->weight.mutable_grad() = each->bias.mutable_grad() = Tensor();
    for (Norm* each : {&after_attention, &after_inner})
      each->gamma.mutable_grad() = each->beta.mutable_grad() = Tensor();
  }
};

}  // namespace

bench::Batch bench::attention() {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 3; ++i) leaves.push_back(leaf({kSequences, kSequenceLength, kHeads, kHeadWidth}));
  const auto heads = [](const Tensor& x) { return x.permute({0, 2, 1, 3}); };
  const Tensor gradient = torch::ones(heads(leaves[0]).sizes());
  return repeat([=]() mutable {
    attend(heads(leaves[0]), heads(leaves[1]), heads(leaves[2])).backward(gradient);
    for (Tensor& each : leaves) each.mutable_grad() = Tensor();
  });
}

bench::Batch bench::transformer_layer() {
  TransformerLayer layer;
  const Tensor x = leaf({kSequences, kSequenceLength, kModelWidth});
  const Tensor gradient = torch::ones_like(x);
  return repeat([=]() mutable {
    layer(x).backward(gradient);
    x.mutable_grad() = Tensor();
    layer.zero_grad();
  });
}

bench::Batch bench::transformer_module() {
  const auto options = torch::nn::TransformerEncoderLayerOptions(kModelWidth, kHeads).dim_feedforward(kInnerWidth);
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(options).dropout(0).activation(torch::kGELU));
  const Tensor x = leaf({kSequenceLength, kSequences, kModelWidth});
  const Tensor gradient = torch::ones_like(x);
  return repeat([=]() mutable {
    layer(x).backward(gradient);
    x.mutable_grad() = Tensor();
    for (Tensor& each : layer->parameters()) each.mutable_grad() = Tensor();
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
