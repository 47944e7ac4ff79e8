#include <cmath>

#include <ferry/indexing.h>
#include <ferry/init.h>
#include <ferry/nn_sequence.h>
#include "src/base/check.h"

namespace ferry::nn {
namespace {

// [B, L, features] → [B, heads, L, features / heads], a view.
Tensor split_heads(const Tensor& x, std::int64_t heads, std::source_location where) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}, where), 1, 2, where);
}

}  // namespace

Tensor multihead_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                           const AttentionOptions& options, std::source_location where) {
  const Tensor y = scaled_dot_product_attention(split_heads(q, heads, where), split_heads(k, heads, where),
                                                split_heads(v, heads, where), options, where);
  return reshape(transpose(y, 1, 2, where), q.shape(), where);
}

MultiheadAttention::MultiheadAttention(std::int64_t features, std::int64_t heads, MultiheadAttentionOptions options)
    : features_(features), heads_(heads), dropout_(options.dropout) {
  FERRY_CHECK(features > 0 && heads > 0 && features % heads == 0, InvalidArgument,
              "MultiheadAttention: {} features do not divide into {} heads", features, heads);
  in_proj_weight = register_parameter("in_proj_weight", zeros({3 * features, features}, options.dtype));
  init::xavier_uniform(in_proj_weight);
  if (options.bias) in_proj_bias = register_parameter("in_proj_bias", zeros({3 * features}, options.dtype));
  out_proj_ = register_module("out_proj", std::make_shared<Linear>(features, features, options.bias, options.dtype));
  if (options.bias) init::constant(out_proj_->bias, 0);
}

Tensor MultiheadAttention::projected(const Tensor& x, std::int64_t first, std::int64_t count) const {
  const auto part = [&](const Tensor& parameter) {
    return parameter ? narrow(parameter, 0, first * features_, count * features_) : parameter;
  };
  return linear(x, part(in_proj_weight), part(in_proj_bias));
}

Tensor MultiheadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal) {
  const AttentionOptions options{.mask = mask, .causal = causal, .dropout = training() ? dropout_ : 0};
  return (*out_proj_)(multihead_attention(q, k, v, heads_, options));
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                      bool causal, std::source_location where) {
  return within(where, [&] {
    return attend(projected(query, 0, 1), projected(key, 1, 1), projected(value, 2, 1), mask, causal);
  });
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  const std::vector<Tensor> parts = split(linear(x, in_proj_weight, in_proj_bias), 3, 2);
  return attend(parts[0], parts[1], parts[2], {}, false);
}

Recurrent::Recurrent(std::int64_t gates, std::int64_t in_features, std::int64_t hidden,
                     const RecurrentModuleOptions& options)
    : options_(options) {
  FERRY_CHECK(in_features > 0 && hidden > 0 && options.layers > 0, InvalidArgument,
              "a recurrent layer of {} inputs, {} hidden units and {} layers; all must be positive", in_features,
              hidden, options.layers);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const int directions = options.bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    for (int direction = 0; direction < directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const std::string& name, const Shape& shape) {
        return register_parameter(name + suffix, uniform(shape, -bound, bound, options.dtype));
      };
      const std::int64_t inputs = layer == 0 ? in_features : directions * hidden;
      RecurrentWeights each{add("weight_ih", {gates * hidden, inputs}), add("weight_hh", {gates * hidden, hidden})};
      if (options.bias != RecurrentBias::none) each.b_ih = add("bias_ih", {gates * hidden});
      if (options.bias == RecurrentBias::two) each.b_hh = add("bias_hh", {gates * hidden});
      weights.push_back(std::move(each));
    }
  }
}

RecurrentOptions Recurrent::options() const {
  return {options_.layers, options_.bidirectional, options_.dropout, training()};
}

}  // namespace ferry::nn
