// The large LSTM language model of Zaremba et al. on the Penn Treebank: two layers of 1,500 units, 10,000 words,
// unrolled for 35 steps.
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/language.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

constexpr double kDropout = 0.65;

// Tokens [N, T] → scores of each next word [T N, vocabulary], step by step. Targets: the next words [N, T].
class LstmLanguageModel : public Model {
 public:
  LstmLanguageModel(std::int64_t words, std::int64_t units, std::int64_t steps, DType dtype)
      : words_(words), steps_(steps) {
    encoder_ = register_module("encoder", std::make_shared<nn::Embedding>(words, units, GradientKind::dense, dtype));
    rnn_ = register_module("rnn",
                           std::make_shared<nn::Lstm>(
                               units, units,
                               nn::RecurrentModuleOptions{
                                   .layers = 2, .dropout = kDropout, .bias = nn::RecurrentBias::one, .dtype = dtype}));
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(kDropout));
    decoder_ = register_module("decoder", std::make_shared<nn::Linear>(units, words, true, dtype));
    for (const nn::NamedTensor& each : parameters()) init::uniform(each.tensor, -kInitial, kInitial);
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Tensor tokens = named(data.ids({size, steps_}, words_), "tokens");
    return {{tokens}, named(data.ids({size, steps_}, words_), "next words"), size};
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const Tensor words = (*dropout_)((*encoder_)(transpose(batch.inputs[0], 0, 1)));
    const Tensor states = (*dropout_)((*rnn_)(words));
    return (*decoder_)(reshape(states, {-1, states.size(2)}));
  }
  Tensor loss_of(const Batch& batch) override { return token_loss(logits_of(batch), transpose(batch.targets, 0, 1)); }

 private:
  static constexpr double kInitial = 0.04;

  const std::int64_t words_, steps_;
  std::shared_ptr<nn::Embedding> encoder_;
  std::shared_ptr<nn::Lstm> rnn_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Linear> decoder_;
};

std::shared_ptr<Model> lstm(const Options& options) {
  const bool small = options.small;
  const std::int64_t words = or_published(options.classes, small ? 50 : 10'000);
  const std::int64_t steps = or_published(options.sequence_length, small ? 6 : 35);
  return std::make_shared<LstmLanguageModel>(words, small ? 12 : 1500, steps, options.dtype);
}

constexpr Entry kEntries[] = {
    {"lstm", "Zaremba et al., Recurrent Neural Network Regularization, 2014, arXiv:1409.2329", 66'022'000,
     "66 million: the large model of the paper, as counted by Press and Wolf (arXiv:1608.05859), table 4", lstm},
};

}  // namespace

std::span<const Entry> lstms() { return kEntries; }

}  // namespace ferry::models
