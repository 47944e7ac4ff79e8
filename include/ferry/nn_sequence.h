// Modules for sequences: attention, transformer blocks' parts and recurrent layers.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/attention.h>
#include <ferry/nn_layers.h>
#include <ferry/nn_module.h>
#include <ferry/recurrent.h>

namespace ferry::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training
  bool bias = true;
  DType dtype = DType::f32;
};

// Vaswani et al., "Attention is all you need", 2017, with the parameters of torch.nn.MultiheadAttention:
// in_proj_weight: [3 features, features] for queries, keys and values, Xavier uniform, in_proj_bias: [3 features],
// zeros; out_proj.weight: [features, features], uniform in ±1/√features, out_proj.bias: zeros.
class MultiheadAttention : public Module {
 public:
  // Throws: InvalidArgument unless heads divides features.
  MultiheadAttention(std::int64_t features, std::int64_t heads, MultiheadAttentionOptions options = {});
  Tensor in_proj_weight, in_proj_bias;

  using Module::operator();
  // query: [B, L, features], key and value: [B, S, features] → [B, L, features]. mask and causal as in
  // scaled_dot_product_attention.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask = {},
                    bool causal = false, std::source_location where = std::source_location::current());

 protected:
  // Attention of x: [B, L, features] to itself.
  Tensor forward(const Tensor& x) override;

 private:
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal);
  Tensor projected(const Tensor& x, std::int64_t first, std::int64_t count) const;

  std::int64_t features_, heads_;
  double dropout_;
  std::shared_ptr<Linear> out_proj_;
};

// softmax(q kᵀ / √(features / heads)) v with `heads` heads. q: [B, L, features], k, v: [B, S, features] →
// [B, L, features]; no copies: heads are views.
Tensor multihead_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                           const AttentionOptions& options = {},
                           std::source_location where = std::source_location::current());

// How many biases a gate has: PyTorch and cuDNN keep two that are added up, other tools one.
enum class RecurrentBias : std::uint8_t { none, one, two };

struct RecurrentModuleOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // of each layer's results but the last one's, in training
  RecurrentBias bias = RecurrentBias::two;
  DType dtype = DType::f32;
};

// Parameters as torch.nn.LSTM and torch.nn.GRU have them: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and so on
// for each layer, "_reverse" behind them for the second direction; uniform in ±1/√hidden.
class Recurrent : public Module {
 public:
  std::vector<RecurrentWeights> weights;  // one a layer and direction

 protected:
  Recurrent(std::int64_t gates, std::int64_t in_features, std::int64_t hidden, const RecurrentModuleOptions& options);
  RecurrentOptions options() const;

 private:
  RecurrentModuleOptions options_;
};

class Lstm : public Recurrent {
 public:
  Lstm(std::int64_t in_features, std::int64_t hidden, const RecurrentModuleOptions& options = {})
      : Recurrent(4, in_features, hidden, options) {}

  using Module::operator();
  // x: [T, N, in]; state as for ferry::lstm.
  LstmResult operator()(const Tensor& x, const LstmState& state,
                        std::source_location where = std::source_location::current()) {
    return within(where, [&] { return lstm(x, state, weights, options(), where); });
  }

 protected:
  Tensor forward(const Tensor& x) override { return lstm(x, {}, weights, options()).y; }
};

class Gru : public Recurrent {
 public:
  Gru(std::int64_t in_features, std::int64_t hidden, const RecurrentModuleOptions& options = {})
      : Recurrent(3, in_features, hidden, options) {}

  using Module::operator();
  // x: [T, N, in]; h as for ferry::gru.
  GruResult operator()(const Tensor& x, const Tensor& h, std::source_location where = std::source_location::current()) {
    return within(where, [&] { return gru(x, h, weights, options(), where); });
  }

 protected:
  Tensor forward(const Tensor& x) override { return gru(x, {}, weights, options()).y; }
};

}  // namespace ferry::nn
