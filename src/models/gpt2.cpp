// GPT-2 with Hugging Face's names. The scores of the next word come from the rows of the word embedding.
#include <cmath>

#include <ferry/activations.h>
#include <ferry/indexing.h>
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/language.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

using nn::Dropout;
using nn::LayerNorm;
using nn::Module;

constexpr double kDropout = 0.1, kDeviation = 0.02;

// x weight + bias, the weight [in, out]: the transposed layout that GPT-2's files have.
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in, std::int64_t out, double deviation, DType dtype) {
    weight_ = register_parameter("weight", normal({in, out}, 0, deviation, dtype));
    bias_ = register_parameter("bias", zeros({out}, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    Shape shape = x.shape();
    shape.back() = weight_.size(1);
    return reshape(matmul(reshape(x, {-1, weight_.size(0)}), weight_) + bias_, shape);
  }

 private:
  Tensor weight_, bias_;
};

class Attention : public Module {
 public:
  Attention(const TransformerExtents& extents, double residual_deviation, DType dtype) : heads_(extents.heads) {
    const std::int64_t features = extents.features;
    c_attn_ = register_module("c_attn", std::make_shared<Conv1d>(features, 3 * features, kDeviation, dtype));
    c_proj_ = register_module("c_proj", std::make_shared<Conv1d>(features, features, residual_deviation, dtype));
    dropout_ = register_module("resid_dropout", std::make_shared<Dropout>(kDropout));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const std::vector<Tensor> parts = split((*c_attn_)(x), 3, 2);
    const AttentionOptions options{.causal = true, .dropout = training() ? kDropout : 0};
    return (*dropout_)((*c_proj_)(nn::multihead_attention(parts[0], parts[1], parts[2], heads_, options)));
  }

 private:
  const std::int64_t heads_;
  std::shared_ptr<Conv1d> c_attn_, c_proj_;
  std::shared_ptr<Dropout> dropout_;
};

class Mlp : public Module {
 public:
  Mlp(std::int64_t features, double residual_deviation, DType dtype) {
    c_fc_ = register_module("c_fc", std::make_shared<Conv1d>(features, 4 * features, kDeviation, dtype));
    c_proj_ = register_module("c_proj", std::make_shared<Conv1d>(4 * features, features, residual_deviation, dtype));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(kDropout));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    return (*dropout_)((*c_proj_)(gelu((*c_fc_)(x), GeluApproximation::tanh)));
  }

 private:
  std::shared_ptr<Conv1d> c_fc_, c_proj_;
  std::shared_ptr<Dropout> dropout_;
};

class Layer : public Module {
 public:
  Layer(const TransformerExtents& extents, DType dtype) {
    // Each of the 2 layers × blocks residual sums adds as much variance.
    const double residual = kDeviation / std::sqrt(2 * static_cast<double>(extents.layers));
    norm1_ = register_module("ln_1", std::make_shared<LayerNorm>(Shape{extents.features}, 1e-5, dtype));
    attention_ = register_module("attn", std::make_shared<Attention>(extents, residual, dtype));
    norm2_ = register_module("ln_2", std::make_shared<LayerNorm>(Shape{extents.features}, 1e-5, dtype));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(extents.features, residual, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + (*attention_)((*norm1_)(x));
    return y + (*mlp_)((*norm2_)(y));
  }

 private:
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Mlp> mlp_;
};

// Tokens [N, T] → scores of each next word [N T, vocabulary]. Targets: the next words [N, T].
class Gpt2 : public Model {
 public:
  Gpt2(const TransformerExtents& extents, std::int64_t length, DType dtype, std::int64_t segments)
      : extents_(extents), length_(length), segments_(segments) {
    const auto table = [&](const std::string& name, std::int64_t rows, double deviation) {
      auto embedding =
          register_module(name, std::make_shared<nn::Embedding>(rows, extents.features, GradientKind::dense, dtype));
      init::normal(embedding->table, 0, deviation);
      return embedding;
    };
    words_ = table("wte", extents.vocabulary, kDeviation);
    positions_ = table("wpe", extents.positions, kDeviation / 2);
    dropout_ = register_module("drop", std::make_shared<Dropout>(kDropout));
    std::vector<std::shared_ptr<Module>> layers;
    for (std::int64_t i = 0; i < extents.layers; ++i) layers.push_back(std::make_shared<Layer>(extents, dtype));
    layers_ = register_module("h", std::make_shared<nn::Sequential>(std::move(layers)));
    norm_ = register_module("ln_f", std::make_shared<LayerNorm>(Shape{extents.features}, 1e-5, dtype));
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Tensor tokens = named(data.ids({size, length_}, extents_.vocabulary), "tokens");
    return {{tokens}, named(data.ids({size, length_}, extents_.vocabulary), "next words"), size};
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const Tensor& tokens = batch.inputs[0];
    const Tensor x = (*words_)(tokens) + narrow(positions_->table, 0, 0, tokens.size(1));
    const std::shared_ptr<nn::Sequential> stages[] = {layers_};
    const Tensor y = (*norm_)(run_blocks(stages, (*dropout_)(x), segments_));
    return linear(reshape(y, {-1, extents_.features}), words_->table);
  }
  Tensor loss_of(const Batch& batch) override { return token_loss(logits_of(batch), batch.targets); }

 private:
  const TransformerExtents extents_;
  const std::int64_t length_, segments_;
  std::shared_ptr<nn::Embedding> words_, positions_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<nn::Sequential> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

std::shared_ptr<Model> gpt2(const Options& options, std::int64_t layers, std::int64_t features, std::int64_t heads) {
  TransformerExtents extents{50'257, 1024, layers, features, heads};
  if (options.small) extents = {60, 8, 2, 16, 4};
  extents.vocabulary = or_published(options.classes, extents.vocabulary);
  const std::int64_t length = or_published(options.sequence_length, extents.positions);
  extents.positions = std::max(extents.positions, length);
  return std::make_shared<Gpt2>(extents, length, options.dtype, options.checkpoint_segments);
}

std::shared_ptr<Model> gpt2_124m(const Options& options) { return gpt2(options, 12, 768, 12); }
std::shared_ptr<Model> gpt2_medium(const Options& options) { return gpt2(options, 24, 1024, 16); }
std::shared_ptr<Model> gpt2_large(const Options& options) { return gpt2(options, 36, 1280, 20); }
std::shared_ptr<Model> gpt2_xl(const Options& options) { return gpt2(options, 48, 1600, 25); }

constexpr std::string_view kPaper = "Radford et al., Language Models are Unsupervised Multitask Learners, 2019";
constexpr std::string_view kHuggingFace = "Hugging Face GPT2Model";

constexpr Entry kEntries[] = {
    {"gpt2", kPaper, 124'439'808, kHuggingFace, gpt2_124m},
    {"gpt2-medium", kPaper, 354'823'168, kHuggingFace, gpt2_medium},
    {"gpt2-large", kPaper, 774'030'080, kHuggingFace, gpt2_large},
    {"gpt2-xl", kPaper, 1'557'611'200, kHuggingFace, gpt2_xl},
};

}  // namespace

std::span<const Entry> gpt2s() { return kEntries; }

}  // namespace ferry::models
