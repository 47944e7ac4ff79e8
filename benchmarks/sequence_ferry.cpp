#include "benchmarks/sequence.h"

#include <vector>

#include <ferry/ferry.h>

using ferry::Tensor;

namespace {

Tensor leaf(const ferry::Shape& shape, double stddev = 1) {
  return ferry::normal(shape, 0, stddev).set_requires_grad();
}

struct Projection {
  Tensor weight, bias;

  Projection(std::int64_t from, std::int64_t to) : weight(leaf({to, from}, 0.02)), bias(leaf({to}, 0.02)) {}
  Tensor operator()(const Tensor& x) const { return ferry::linear(x, weight, bias); }
};

struct Norm {
  Tensor gamma = leaf({bench::kModelWidth}), beta = leaf({bench::kModelWidth});

  Tensor operator()(const Tensor& x) const { return ferry::layer_norm(x, {bench::kModelWidth}, gamma, beta); }
};

struct TransformerLayer {
  Projection query{bench::kModelWidth, bench::kModelWidth}, key = {bench::kModelWidth, bench::kModelWidth};
  Projection value{bench::kModelWidth, bench::kModelWidth}, out = {bench::kModelWidth, bench::kModelWidth};
  Projection up{bench::kModelWidth, bench::kInnerWidth}, down = {bench::kInnerWidth, bench::kModelWidth};
  Norm after_attention, after_inner;

  Tensor operator()(const Tensor& x) const {
    const auto heads = [&](const Projection& projection) {
      const ferry::Shape shape{bench::kSequences, bench::kSequenceLength, bench::kHeads, bench::kHeadWidth};
      return ferry::permute(ferry::reshape(projection(x), shape), {0, 2, 1, 3});
    };
    const Tensor attended = ferry::scaled_dot_product_attention(heads(query), heads(key), heads(value));
    const Tensor joined = ferry::reshape(ferry::permute(attended, {0, 2, 1, 3}), x.shape());
    const Tensor middle = after_attention(x + out(joined));
    return after_inner(middle + down(ferry::gelu(up(middle))));
  }

  void zero_grad() {
    for (Projection* each : {&query, &key, &value, &out, &up, &down}) {
      each->weight.zero_grad();
      each->bias.zero_grad();
    }
    for (Norm* each : {&after_attention, &after_inner}) {
      each->gamma.zero_grad();
      each->beta.zero_grad();
    }
  }
};

}  // namespace

bench::Batch bench::attention() {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 3; ++i) leaves.push_back(leaf({kSequences, kSequenceLength, kHeads, kHeadWidth}));
  const auto heads = [](const Tensor& x) { return ferry::permute(x, {0, 2, 1, 3}); };
  const Tensor gradient = ferry::ones(heads(leaves[0]).shape());
  return repeat([=]() mutable {
    ferry::scaled_dot_product_attention(heads(leaves[0]), heads(leaves[1]), heads(leaves[2])).backward(gradient);
    for (Tensor& each : leaves) each.zero_grad();
  });
}

bench::Batch bench::transformer_layer() {
  TransformerLayer layer;
  Tensor x = leaf({kSequences, kSequenceLength, kModelWidth});
  const Tensor gradient = ferry::ones(x.shape());
  return repeat([=]() mutable {
    layer(x).backward(gradient);
    x.zero_grad();
    layer.zero_grad();
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
