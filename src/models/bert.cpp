// BERT, uncased: encoder and pooler with Hugging Face's names. Both tasks of pre-training take their scores from
// parameters that are there already: a masked word's from the rows of the word embedding, whether the second sentence
// follows from the first two units of the pooler.
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
using nn::Linear;
using nn::Module;

constexpr double kDropout = 0.1, kEpsilon = 1e-12, kDeviation = 0.02;

std::shared_ptr<LayerNorm> norm(std::int64_t features, DType dtype) {
  return std::make_shared<LayerNorm>(Shape{features}, kEpsilon, dtype);
}

class SelfAttention : public Module {
 public:
  SelfAttention(std::int64_t features, std::int64_t heads, DType dtype) : heads_(heads) {
    query_ = register_module("query", std::make_shared<Linear>(features, features, true, dtype));
    key_ = register_module("key", std::make_shared<Linear>(features, features, true, dtype));
    value_ = register_module("value", std::make_shared<Linear>(features, features, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    return nn::multihead_attention((*query_)(x), (*key_)(x), (*value_)(x), heads_,
                                   {.dropout = training() ? kDropout : 0});
  }

 private:
  const std::int64_t heads_;
  std::shared_ptr<Linear> query_, key_, value_;
};

// norm(dropout(dense(x)) + shortcut).
class Output : public Module {
 public:
  Output(std::int64_t in, std::int64_t features, DType dtype) {
    dense_ = register_module("dense", std::make_shared<Linear>(in, features, true, dtype));
    norm_ = register_module("LayerNorm", norm(features, dtype));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(kDropout));
  }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& shortcut, const std::source_location& where) {
    return within(where, [&] { return (*norm_)((*dropout_)((*dense_)(x)) + shortcut); });
  }

 private:
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Dropout> dropout_;
};

class Attention : public Module {
 public:
  Attention(std::int64_t features, std::int64_t heads, DType dtype) {
    self_ = register_module("self", std::make_shared<SelfAttention>(features, heads, dtype));
    output_ = register_module("output", std::make_shared<Output>(features, features, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override { return (*output_)((*self_)(x), x, std::source_location::current()); }

 private:
  std::shared_ptr<SelfAttention> self_;
  std::shared_ptr<Output> output_;
};

class Intermediate : public Module {
 public:
  Intermediate(std::int64_t features, DType dtype) {
    dense_ = register_module("dense", std::make_shared<Linear>(features, 4 * features, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override { return gelu((*dense_)(x)); }

 private:
  std::shared_ptr<Linear> dense_;
};

class Layer : public Module {
 public:
  Layer(std::int64_t features, std::int64_t heads, DType dtype) {
    attention_ = register_module("attention", std::make_shared<Attention>(features, heads, dtype));
    intermediate_ = register_module("intermediate", std::make_shared<Intermediate>(features, dtype));
    output_ = register_module("output", std::make_shared<Output>(4 * features, features, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*attention_)(x);
    return (*output_)((*intermediate_)(y), y, std::source_location::current());
  }

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Intermediate> intermediate_;
  std::shared_ptr<Output> output_;
};

class Embeddings : public Module {
 public:
  Embeddings(const TransformerExtents& extents, DType dtype) {
    const auto table = [&](const std::string& name, std::int64_t rows) {
      auto embedding =
          register_module(name, std::make_shared<nn::Embedding>(rows, extents.features, GradientKind::dense, dtype));
      init::normal(embedding->table, 0, kDeviation);
      return embedding;
    };
    words_ = table("word_embeddings", extents.vocabulary);
    positions_ = table("position_embeddings", extents.positions);
    segments_ = table("token_type_embeddings", 2);
    norm_ = register_module("LayerNorm", norm(extents.features, dtype));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(kDropout));
  }
  using Module::operator();
  Tensor operator()(const Tensor& tokens, const Tensor& segments, const std::source_location& where) {
    return within(where, [&] {
      const Tensor position = narrow(positions_->table, 0, 0, tokens.size(1));
      return (*dropout_)((*norm_)((*words_)(tokens) + (*segments_)(segments) + position));
    });
  }
  const Tensor& words() const { return words_->table; }

 private:
  std::shared_ptr<nn::Embedding> words_, positions_, segments_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Dropout> dropout_;
};

std::shared_ptr<nn::Sequential> layers(const TransformerExtents& extents, DType dtype) {
  std::vector<std::shared_ptr<Module>> list;
  for (std::int64_t i = 0; i < extents.layers; ++i) {
    list.push_back(std::make_shared<Layer>(extents.features, extents.heads, dtype));
  }
  return std::make_shared<nn::Sequential>(std::move(list));
}

// A module whose one child has another name than its path would have without it: "encoder.layer.0".
class Wrapper : public Module {
 public:
  template <class M>
  Wrapper(const std::string& name, std::shared_ptr<M> child) {
    child_ = register_module(name, std::move(child));
  }

 protected:
  Tensor forward(const Tensor& x) override { return (*child_)(x); }

 private:
  std::shared_ptr<Module> child_;
};

// Inputs: tokens [N, T], segments [N, T] (0 or 1), the masked words' places [N M] as rows of [N T], and whether the
// second sentence follows [N]. Targets: the masked words [N M]. Scores: of the masked words [N M, vocabulary].
class Bert : public Model {
 public:
  Bert(const TransformerExtents& extents, std::int64_t length, DType dtype, std::int64_t segments)
      : extents_(extents), length_(length), checkpoints_(segments) {
    embeddings_ = register_module("embeddings", std::make_shared<Embeddings>(extents, dtype));
    layers_ = layers(extents, dtype);
    register_module("encoder", std::make_shared<Wrapper>("layer", layers_));
    dense_ = std::make_shared<Linear>(extents.features, extents.features, true, dtype);
    pooler_ = register_module("pooler", std::make_shared<Wrapper>("dense", dense_));
    normal_linears(*this, kDeviation);
  }

  // 15 of 100 words are masked.
  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Tensor tokens = named(data.ids({size, length_}, extents_.vocabulary), "tokens");
    const Tensor segments = named(data.ids({size, length_}, 2), "segments");
    const std::int64_t masked = size * std::max<std::int64_t>(length_ * 15 / 100, 1);
    const Tensor places = named(data.ids({masked}, size * length_), "masked places");
    const Tensor follows = named(data.ids({size}, 2), "follows");
    return {{tokens, segments, places, follows}, named(data.ids({masked}, extents_.vocabulary), "masked words"), size};
  }

 protected:
  Tensor logits_of(const Batch& batch) override { return word_scores(encoded(batch), batch); }
  Tensor loss_of(const Batch& batch) override {
    const Tensor hidden = encoded(batch);
    const Tensor pooled = tanh((*pooler_)(select(hidden, 1, 0)));
    return token_loss(word_scores(hidden, batch), batch.targets) +
           softmax_cross_entropy(narrow(pooled, 1, 0, 2), batch.inputs[3]);
  }

 private:
  Tensor encoded(const Batch& batch) {
    const Tensor x = (*embeddings_)(batch.inputs[0], batch.inputs[1], std::source_location::current());
    const std::shared_ptr<nn::Sequential> stages[] = {layers_};
    return run_blocks(stages, x, checkpoints_);
  }
  Tensor word_scores(const Tensor& hidden, const Batch& batch) const {
    const Tensor rows = index_select(reshape(hidden, {-1, extents_.features}), 0, batch.inputs[2]);
    return linear(rows, embeddings_->words());
  }

  const TransformerExtents extents_;
  const std::int64_t length_, checkpoints_;
  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<nn::Sequential> layers_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<Wrapper> pooler_;
};

std::shared_ptr<Model> bert(const Options& options, TransformerExtents extents) {
  if (options.small) extents = {60, 8, 2, 16, 4};
  extents.vocabulary = or_published(options.classes, extents.vocabulary);
  const std::int64_t length = or_published(options.sequence_length, extents.positions);
  extents.positions = std::max(extents.positions, length);
  return std::make_shared<Bert>(extents, length, options.dtype, options.checkpoint_segments);
}

std::shared_ptr<Model> bert_base(const Options& options) { return bert(options, {30'522, 512, 12, 768, 12}); }
std::shared_ptr<Model> bert_large(const Options& options) { return bert(options, {30'522, 512, 24, 1024, 16}); }

constexpr std::string_view kPaper =
    "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018, "
    "arXiv:1810.04805";

constexpr Entry kEntries[] = {
    {"bert-base", kPaper, 109'482'240, "Hugging Face BertModel (bert-base-uncased): encoder and pooler", bert_base},
    {"bert-large", kPaper, 335'141'888, "Hugging Face BertModel (bert-large-uncased): encoder and pooler", bert_large},
};

}  // namespace

std::span<const Entry> berts() { return kEntries; }

}  // namespace ferry::models
