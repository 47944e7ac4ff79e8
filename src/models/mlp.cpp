// The multilayer perceptron of LeCun et al. for handwritten digits: 784, 300, 100 and 10 units, often called
// LeNet-300-100.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

class Mlp : public ImageClassifier {
 public:
  Mlp(const Extents& extents, const std::vector<std::int64_t>& hidden) : ImageClassifier(extents) {
    std::int64_t features = extents.channels * extents.size * extents.size;
    for (const std::int64_t width : hidden) {
      add(features, width);
      features = width;
    }
    add(features, extents.classes);
  }

 protected:
  Tensor forward(const Tensor& x) override {
    Tensor y = flatten(x, 1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) y = tanh((*layers_[i])(y));
    return (*layers_.back())(y);
  }

 private:
  void add(std::int64_t in, std::int64_t out) {
    layers_.push_back(register_module("fc" + std::to_string(layers_.size() + 1),
                                      std::make_shared<nn::Linear>(in, out, true, extents().dtype)));
  }

  std::vector<std::shared_ptr<nn::Linear>> layers_;
};

std::shared_ptr<Model> mlp(const Options& options) {
  const ImageClassifier::Extents extents{1, or_published(options.image_size, options.small ? 8 : 28),
                                         or_published(options.classes, 10), options.dtype};
  return std::make_shared<Mlp>(extents,
                               options.small ? std::vector<std::int64_t>{16, 12} : std::vector<std::int64_t>{300, 100});
}

constexpr Entry kEntries[] = {
    {"mlp", "LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998", 266'610,
     "Han et al. 2015 (arXiv:1506.02626), table 1: LeNet-300-100 has 267 thousand", mlp},
};

}  // namespace

std::span<const Entry> mlps() { return kEntries; }

}  // namespace ferry::models
