// The encoder of the base Transformer, trained to name the words of its input.
#include <cmath>

#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/language.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

constexpr double kDropout = 0.1;

// norm(x + attention(x)), norm(x + feed-forward(x)), with the names of torch.nn.TransformerEncoderLayer.
class EncoderLayer : public nn::Module {
 public:
  EncoderLayer(std::int64_t features, std::int64_t heads, DType dtype) {
    attention_ = register_module(
        "self_attn", std::make_shared<nn::MultiheadAttention>(
                         features, heads, nn::MultiheadAttentionOptions{.dropout = kDropout, .dtype = dtype}));
    linear1_ = register_module("linear1", std::make_shared<nn::Linear>(features, 4 * features, true, dtype));
    linear2_ = register_module("linear2", std::make_shared<nn::Linear>(4 * features, features, true, dtype));
    norm1_ = register_module("norm1", std::make_shared<nn::LayerNorm>(Shape{features}, 1e-5, dtype));
    norm2_ = register_module("norm2", std::make_shared<nn::LayerNorm>(Shape{features}, 1e-5, dtype));
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(kDropout));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*norm1_)(x + (*dropout_)((*attention_)(x)));
    return (*norm2_)(y + (*dropout_)((*linear2_)((*dropout_)(relu((*linear1_)(y))))));
  }

 private:
  std::shared_ptr<nn::MultiheadAttention> attention_;
  std::shared_ptr<nn::Linear> linear1_, linear2_;
  std::shared_ptr<nn::LayerNorm> norm1_, norm2_;
  std::shared_ptr<nn::Dropout> dropout_;
};

// sin and cos of position / 10000^(2 i / features), in turn: [positions, features] in host memory.
Tensor sinusoids(std::int64_t positions, std::int64_t features, DType dtype) {
  std::vector<double> values;
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t i = 0; i < features; ++i) {
      const double exponent = static_cast<double>(i - i % 2) / static_cast<double>(features);
      const double angle = static_cast<double>(position) / std::pow(10'000.0, exponent);
      values.push_back(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return from_vector(values, {positions, features}).to(dtype);
}

// Tokens [N, T] → scores of each word [N T, vocabulary] by the embedding's rows. Targets: words [N, T].
class Transformer : public Model {
 public:
  Transformer(const TransformerExtents& extents, DType dtype, std::int64_t segments)
      : extents_(extents), segments_(segments) {
    embedding_ = register_module(
        "embedding", std::make_shared<nn::Embedding>(extents.vocabulary, extents.features, GradientKind::dense, dtype));
    init::normal(embedding_->table, 0, 1 / std::sqrt(static_cast<double>(extents.features)));
    std::vector<std::shared_ptr<nn::Module>> layers;
    for (std::int64_t i = 0; i < extents.layers; ++i) {
      layers.push_back(std::make_shared<EncoderLayer>(extents.features, extents.heads, dtype));
    }
    layers_ = register_module("layers", std::make_shared<nn::Sequential>(std::move(layers)));
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(kDropout));
    const DeviceGuard<cpu> on_host;
    positions_ = named(sinusoids(extents.positions, extents.features, dtype), "positions");
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Shape shape = {size, extents_.positions};
    const Tensor tokens = named(data.ids(shape, extents_.vocabulary), "tokens");
    return {{tokens}, named(data.ids(shape, extents_.vocabulary), "words"), size};
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const double scale = std::sqrt(static_cast<double>(extents_.features));
    const Tensor words = (*embedding_)(batch.inputs[0]) * scale;
    const std::shared_ptr<nn::Sequential> stages[] = {layers_};
    const Tensor y = run_blocks(stages, (*dropout_)(words + positions_), segments_);
    return linear(reshape(y, {-1, extents_.features}), embedding_->table);
  }
  Tensor loss_of(const Batch& batch) override { return token_loss(logits_of(batch), batch.targets); }

 private:
  const TransformerExtents extents_;
  const std::int64_t segments_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Sequential> layers_;
  std::shared_ptr<nn::Dropout> dropout_;
  Tensor positions_;
};

std::shared_ptr<Model> transformer(const Options& options) {
  const bool small = options.small;
  TransformerExtents extents = small ? TransformerExtents{60, 6, 2, 16, 4} : TransformerExtents{37'000, 512, 6, 512, 8};
  extents.vocabulary = or_published(options.classes, extents.vocabulary);
  extents.positions = or_published(options.sequence_length, extents.positions);
  return std::make_shared<Transformer>(extents, options.dtype, options.checkpoint_segments);
}

constexpr Entry kEntries[] = {
    {"transformer", "Vaswani et al., Attention Is All You Need, 2017, arXiv:1706.03762", 37'858'304,
     "torch.nn.TransformerEncoder of six base layers: 18,914,304; the paper's 37,000 shared words: 18,944,000",
     transformer},
};

}  // namespace

std::span<const Entry> transformers() { return kEntries; }

}  // namespace ferry::models
