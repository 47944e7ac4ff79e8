// Skip-gram with negative sampling, of the size of the vectors published for Google News: three million words of 300
// features.
#include <ferry/losses.h>
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

constexpr std::int64_t kNegatives = 5;

// Words [N] and for each a neighbour and negatives [N, 1 + 5] → scores [N, 1 + 5]. Targets: 1 for neighbours, else 0.
class Word2Vec : public Model {
 public:
  Word2Vec(std::int64_t words, std::int64_t features, DType dtype) : words_(words), dtype_(dtype) {
    const auto table = [&](const std::string& name) {
      return register_module(name, std::make_shared<nn::Embedding>(words, features, GradientKind::row_sparse, dtype));
    };
    input_ = table("input");
    output_ = table("output");
    const double bound = 0.5 / static_cast<double>(features);
    init::uniform(input_->table, -bound, bound);
    init::constant(output_->table, 0);
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Tensor words = named(data.ids({size}, words_), "words");
    const Tensor others = named(data.ids({size, 1 + kNegatives}, words_), "neighbours and negatives");
    const DeviceGuard<cpu> on_host;
    const Tensor first = from_vector(std::vector<std::int64_t>{1, 0, 0, 0, 0, 0}).to(dtype_);
    const Tensor targets = expand(reshape(first, {1, 1 + kNegatives}), {size, 1 + kNegatives}).contiguous();
    return {{words, others}, named(targets, "is neighbour"), size};
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const Tensor word = (*input_)(batch.inputs[0]), others = (*output_)(batch.inputs[1]);
    return reshape(matmul(others, reshape(word, {word.size(0), word.size(1), 1})), batch.inputs[1].shape());
  }
  Tensor loss_of(const Batch& batch) override {
    const Tensor loss = binary_cross_entropy_with_logits(logits_of(batch), batch.targets, {}, Reduction::sum);
    return loss * (1 / static_cast<double>(batch.targets.size(0)));
  }

 private:
  const std::int64_t words_;
  const DType dtype_;
  std::shared_ptr<nn::Embedding> input_, output_;
};

std::shared_ptr<Model> word2vec(const Options& options) {
  const std::int64_t words = or_published(options.classes, options.small ? 100 : 3'000'000);
  return std::make_shared<Word2Vec>(words, options.small ? 12 : 300, options.dtype);
}

constexpr Entry kEntries[] = {
    {"word2vec",
     "Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality, 2013, "
     "arXiv:1310.4546",
     1'800'000'000, "code.google.com/archive/p/word2vec: 3 million vectors of 300, and as many for the other side",
     word2vec},
};

}  // namespace

std::span<const Entry> word2vecs() { return kEntries; }

}  // namespace ferry::models
