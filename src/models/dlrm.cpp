// DLRM in the configuration for the Criteo Kaggle data: 26 tables of 16 features and 13 numbers a sample.
#include <cmath>

#include <ferry/indexing.h>
#include <ferry/losses.h>
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

// Rows of the tables: the distinct values of each categorical feature (README and code of
// github.com/facebookresearch/dlrm).
constexpr std::int64_t kRows[] = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                  93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                  2173,  4,    7046547,  18,      15,  286181, 105,     142572};

// Linear layers with relu between them and behind the last one too.
class Tower : public nn::Module {
 public:
  Tower(std::span<const std::int64_t> widths, bool relu_last, DType dtype) : relu_last_(relu_last) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      auto layer = std::make_shared<nn::Linear>(widths[i], widths[i + 1], true, dtype);
      init::xavier_normal(layer->weight);
      init::normal(layer->bias, 0, std::sqrt(1 / static_cast<double>(widths[i + 1])));
      // The numbers of torch.nn.Sequential, where activations count.
      layers_.push_back(register_module(std::to_string(2 * i), std::move(layer)));
    }
  }

 protected:
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      y = (*layers_[i])(y);
      if (i + 1 < layers_.size() || relu_last_) y = relu(y);
    }
    return y;
  }

 private:
  const bool relu_last_;
  std::vector<std::shared_ptr<nn::Linear>> layers_;
};

struct Extents {
  std::vector<std::int64_t> rows, bottom,
      top;  // `bottom` ends in the tables' features; `top` begins after the products
  DType dtype;
};

// Numbers [N, 13] and one id [N] a table → scores [N]. Targets: clicks [N], 0 or 1.
class Dlrm : public Model {
 public:
  explicit Dlrm(Extents extents) : extents_(std::move(extents)) {
    const std::int64_t features = extents_.bottom.back();
    for (std::size_t i = 0; i < extents_.rows.size(); ++i) {
      auto table =
          std::make_shared<nn::Embedding>(extents_.rows[i], features, GradientKind::row_sparse, extents_.dtype);
      const double bound = std::sqrt(1 / static_cast<double>(extents_.rows[i]));
      init::uniform(table->table, -bound, bound);
      tables_.push_back(register_module("emb_l_" + std::to_string(i), std::move(table)));
    }
    bottom_ = register_module("bot_l", std::make_shared<Tower>(extents_.bottom, true, extents_.dtype));
    // The products of all pairs of vectors, as places in a matrix of count x count.
    const auto count = static_cast<std::int64_t>(extents_.rows.size()) + 1;
    std::vector<std::int64_t> pairs, widths;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < i; ++j) pairs.push_back(i * count + j);
    }
    widths.push_back(features + static_cast<std::int64_t>(pairs.size()));
    widths.insert(widths.end(), extents_.top.begin(), extents_.top.end());
    top_ = register_module("top_l", std::make_shared<Tower>(widths, false, extents_.dtype));
    pairs_ = named(from_vector(pairs), "pairs");
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    Batch batch{.inputs = {named(data.noise({size, extents_.bottom[0]}, extents_.dtype), "numbers")},
                .targets = {},
                .size = size};
    for (const std::int64_t rows : extents_.rows) batch.inputs.push_back(data.ids({size}, rows));
    const DeviceGuard<cpu> on_host;
    batch.targets = named(data.ids({size}, 2).to(extents_.dtype), "clicks");
    return batch;
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const std::int64_t samples = batch.inputs[0].size(0);
    std::vector<Tensor> vectors = {(*bottom_)(batch.inputs[0])};
    for (std::size_t i = 0; i < tables_.size(); ++i) vectors.push_back((*tables_[i])(batch.inputs[i + 1]));
    const Tensor all = stack(vectors, 1);
    const Tensor products = reshape(matmul(all, transpose(all, 1, 2)), {samples, -1});
    return reshape((*top_)(concat({vectors[0], index_select(products, 1, pairs_)}, 1)), {samples});
  }
  Tensor loss_of(const Batch& batch) override {
    return binary_cross_entropy_with_logits(logits_of(batch), batch.targets);
  }

 private:
  const Extents extents_;
  std::vector<std::shared_ptr<nn::Embedding>> tables_;
  std::shared_ptr<Tower> bottom_, top_;
  Tensor pairs_;
};

std::shared_ptr<Model> dlrm(const Options& options) {
  if (options.small) return std::make_shared<Dlrm>(Extents{{50, 7, 120, 3}, {5, 12, 6}, {10, 1}, options.dtype});
  return std::make_shared<Dlrm>(
      Extents{{std::begin(kRows), std::end(kRows)}, {13, 512, 256, 64, 16}, {512, 256, 1}, options.dtype});
}

constexpr Entry kEntries[] = {
    {"dlrm",
     "Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019, "
     "arXiv:1906.00091",
     540'677'217, "section 5.1 of the paper: 540 million; counted from its configuration for Criteo Kaggle", dlrm},
};

}  // namespace

std::span<const Entry> dlrms() { return kEntries; }

}  // namespace ferry::models
