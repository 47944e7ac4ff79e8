// Blocks with parameters: products, convolutions, normalisation, attention, lookups, recurrent layers.
#include <cmath>

#include <ferry/activations.h>
#include <ferry/attention.h>
#include <ferry/autocast.h>
#include <ferry/convolution.h>
#include <ferry/indexing.h>
#include <ferry/normalization.h>
#include <ferry/recurrent.h>
#include "tests/swap/training_blocks.h"

namespace ferry::test {
namespace {

constexpr std::int64_t kVocabulary = 120, kBagVocabulary = 60, kIdsARow = 3;

BlockParameter weight(const Shape& shape, std::int64_t fan_in, DType dtype = DType::f32) {
  const double bound = 1.5 / std::sqrt(static_cast<double>(fan_in));
  return {.shape = shape, .low = -bound, .high = bound, .dtype = dtype};
}
BlockParameter bias(std::int64_t size) { return {.shape = {size}, .low = -0.1, .high = 0.1}; }
BlockParameter gamma(std::int64_t size) { return {.shape = {size}, .low = 0.5, .high = 1.5}; }

using Parameters = std::vector<BlockParameter>;

Tensor dense(BlockCall call) {
  return relu(linear(call.a, call.parameters[0], call.parameters[1])) * 0.8 + call.b * 0.3;
}
Parameters dense_parameters(std::int64_t width) { return {weight({width, width}, width), bias(width)}; }

// Wide in the middle, with a residual sum.
Tensor feed_forward(BlockCall call) {
  return call.a + linear(gelu(linear(call.a, call.parameters[0], call.parameters[1])), call.parameters[2]) * 0.3;
}
Parameters feed_forward_parameters(std::int64_t width) {
  return {weight({4 * width, width}, width), bias(4 * width), weight({width, 4 * width}, 4 * width)};
}

Tensor dense_bf16(BlockCall call) {
  const Tensor y = linear(call.a.to(DType::bf16), call.parameters[0]);
  return y.to(DType::f32) * 0.7 + call.b * 0.3;
}
Parameters dense_bf16_parameters(std::int64_t width) { return {weight({width, width}, width, DType::bf16)}; }

Tensor autocast(BlockCall call) {
  Tensor y;
  {
    const Autocast scope;
    const Tensor h = gelu(linear(call.a, call.parameters[0], call.parameters[1]));
    y = layer_norm(linear(h, call.parameters[0]) + h, {call.width});
  }
  return y.to(DType::f32) * 0.6 + call.b * 0.3;
}

Tensor convolution(BlockCall call) {
  const Tensor y = conv2d(call.image(call.a), call.parameters[0], call.parameters[1], {.padding = {1, 1}});
  return call.value(relu(y)) * 0.7 + call.b * 0.3;
}
Parameters convolution_parameters(std::int64_t width) {
  const std::int64_t channels = width / 16;
  return {weight({channels, channels, 3, 3}, channels * 9), bias(channels)};
}

Tensor convolution_norm(BlockCall call) {
  const Tensor y = conv2d(call.image(call.a), call.parameters[0], {}, {.padding = {1, 1}});
  const Tensor normal = batch_norm(y, call.parameters[1], call.parameters[2], call.buffers[0], call.buffers[1]);
  return call.value(relu(normal)) * 0.6 + call.a * 0.4;
}
Parameters convolution_norm_parameters(std::int64_t width) {
  const std::int64_t channels = width / 16;
  return {weight({channels, channels, 3, 3}, channels * 9), gamma(channels), bias(channels)};
}
Parameters convolution_norm_buffers(std::int64_t width) {
  return {{.shape = {width / 16}, .low = 0, .high = 0}, {.shape = {width / 16}, .low = 1, .high = 1}};
}

Tensor down_and_up(BlockCall call) {
  const bool largest = call.block_seed % 2 == 0;
  const Tensor image = call.image(call.a);
  const Tensor small = largest ? max_pool2d(image) : avg_pool2d(image);
  const Tensor changed = conv2d(small, call.parameters[0], call.parameters[1], {.padding = {1, 1}});
  const Tensor large = upsample2d(silu(changed), {.mode = largest ? UpsampleMode::nearest : UpsampleMode::bilinear});
  return call.value(large) * 0.7 + call.b * 0.3;
}

Tensor column_norm(BlockCall call) {
  return batch_norm(call.a, call.parameters[0], call.parameters[1], call.buffers[0], call.buffers[1]) * 0.7 +
         call.b * 0.2;
}
Parameters norm_parameters(std::int64_t width) { return {gamma(width), bias(width)}; }
Parameters column_norm_buffers(std::int64_t width) {
  return {{.shape = {width}, .low = 0, .high = 0}, {.shape = {width}, .low = 1, .high = 1}};
}

Tensor row_norm(BlockCall call) {
  return layer_norm(call.a + call.b, {call.width}, call.parameters[0], call.parameters[1]) * 0.8;
}

Tensor group_norms(BlockCall call) {
  const Tensor y = group_norm(call.image(call.a), call.channels() / 3, call.parameters[0], call.parameters[1]);
  return call.value(y) * 0.6 + call.b * 0.3;
}
Parameters group_norm_parameters(std::int64_t width) { return {gamma(width / 16), bias(width / 16)}; }

// Queries, keys and values are views of one product.
Tensor attention(BlockCall call) {
  constexpr std::int64_t kHeads = 4;
  const Tensor all = reshape(linear(call.a, call.parameters[0]), {call.rows, 3, kHeads, call.width / kHeads});
  const auto part = [&](std::int64_t which) { return permute(select(all, 1, which), {1, 0, 2}); };
  const Tensor y = scaled_dot_product_attention(
      part(0), part(1), part(2), {.causal = call.block_seed % 2 == 0, .dropout = call.block_seed % 3 == 0 ? 0.2 : 0.0});
  return call.a * 0.5 + call.value(permute(y, {1, 0, 2})) * 0.5 + call.b * 0.1;
}
Parameters attention_parameters(std::int64_t width) { return {weight({3 * width, width}, width)}; }

Tensor lookup(BlockCall call) {
  const Tensor rows = embedding(call.parameters[0], call.indices({call.rows, kIdsARow}, kVocabulary));
  return call.a * 0.7 + mean(rows, {1}) * tanh(call.b);
}
Parameters lookup_parameters(std::int64_t width) {
  return {{.shape = {kVocabulary, width}, .low = -1, .high = 1, .shareable = false}};
}

Tensor sparse_lookup(BlockCall call) {
  const Tensor ids = call.indices({call.rows, kIdsARow}, kVocabulary);
  const Tensor rows = embedding(call.parameters[0], ids, GradientKind::row_sparse);
  return call.a * 0.7 + mean(rows, {1}) * 0.5;
}

Tensor sparse_bags(BlockCall call) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t row = 0; row < call.rows; ++row) offsets.push_back(row * 2);
  const Tensor bags = embedding_bag(call.parameters[0], call.indices({call.rows * 2}, kBagVocabulary),
                                    from_vector(offsets), BagMode::mean, GradientKind::row_sparse);
  return call.a * 0.6 + bags * sigmoid(call.b);
}
Parameters sparse_bags_parameters(std::int64_t width) {
  return {{.shape = {kBagVocabulary, width}, .low = -1, .high = 1, .shareable = false}};
}

// One parameter in a loop of changing length.
Tensor recurrent_loop(BlockCall call) {
  const int trips = 1 + static_cast<int>(call.random() % 3);
  Tensor h = call.a;
  for (int i = 0; i < trips; ++i) h = tanh(linear(h, call.parameters[0], call.parameters[1]) + call.b * 0.5);
  return h;
}

// Some columns as a sequence.
Tensor sequence(const BlockCall& call, std::int64_t steps) {
  return permute(reshape(call.a, {call.rows, steps, call.width / steps}), {1, 0, 2});
}

Tensor lstm_layer(BlockCall call) {
  const LstmResult result =
      lstm(sequence(call, 4), {}, {{call.parameters[0], call.parameters[1], call.parameters[2], {}}});
  return call.value(permute(result.y, {1, 0, 2})) * 0.7 + call.b * 0.4;
}
Parameters lstm_parameters(std::int64_t width) {
  const std::int64_t size = width / 4;
  return {weight({4 * size, size}, size), weight({4 * size, size}, size), bias(4 * size)};
}

Tensor gru_cells(BlockCall call) {
  const Tensor steps = sequence(call, 4);
  Tensor h;
  std::vector<Tensor> states;
  for (std::int64_t t = 0; t < 4; ++t) {
    h = gru_cell(select(steps, 0, t), h, {call.parameters[0], call.parameters[1], call.parameters[2], {}});
    states.push_back(h);
  }
  return call.value(stack(states, 1)) * 0.7 + call.b * 0.4;
}
Parameters gru_parameters(std::int64_t width) {
  const std::int64_t size = width / 4;
  return {weight({3 * size, size}, size), weight({3 * size, size}, size), bias(3 * size)};
}

constexpr BlockKind kLayerBlocks[] = {
    {"dense", dense, dense_parameters},
    {"feed_forward", feed_forward, feed_forward_parameters},
    {"dense_bf16", dense_bf16, dense_bf16_parameters},
    {"autocast", autocast, dense_parameters},
    {"convolution", convolution, convolution_parameters},
    {"convolution_norm", convolution_norm, convolution_norm_parameters, convolution_norm_buffers},
    {"down_and_up", down_and_up, convolution_parameters},
    {"column_norm", column_norm, norm_parameters, column_norm_buffers},
    {"row_norm", row_norm, norm_parameters},
    {"group_norms", group_norms, group_norm_parameters},
    {"attention", attention, attention_parameters},
    {"lookup", lookup, lookup_parameters},
    {"sparse_lookup", sparse_lookup, lookup_parameters},
    {"sparse_bags", sparse_bags, sparse_bags_parameters},
    {"recurrent_loop", recurrent_loop, dense_parameters},
    {"lstm_layer", lstm_layer, lstm_parameters},
    {"gru_cells", gru_cells, gru_parameters},
};

}  // namespace

std::span<const BlockKind> layer_blocks() { return kLayerBlocks; }

}  // namespace ferry::test
