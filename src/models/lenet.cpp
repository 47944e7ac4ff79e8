// LeNet-5 with every map of the second convolution connected to every map before it.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

class LeNet : public ImageClassifier {
 public:
  explicit LeNet(const Extents& extents) : ImageClassifier(extents) {
    const DType dtype = extents.dtype;
    const ConvolutionOptions options{.padding = 0, .bias = true, .dtype = dtype};
    conv1_ = register_module("conv1", convolution(extents.channels, 6, 5, options));
    conv2_ = register_module("conv2", convolution(6, 16, 5, options));
    const std::int64_t side = ((extents.size - 4) / 2 - 4) / 2;
    fc1_ = register_module("fc1", std::make_shared<nn::Linear>(16 * side * side, 120, true, dtype));
    fc2_ = register_module("fc2", std::make_shared<nn::Linear>(120, 84, true, dtype));
    fc3_ = register_module("fc3", std::make_shared<nn::Linear>(84, extents.classes, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = avg_pool2d(tanh((*conv1_)(x)));
    const Tensor features = flatten(avg_pool2d(tanh((*conv2_)(y))), 1);
    return (*fc3_)(tanh((*fc2_)(tanh((*fc1_)(features)))));
  }

 private:
  std::shared_ptr<nn::Conv2d> conv1_, conv2_;
  std::shared_ptr<nn::Linear> fc1_, fc2_, fc3_;
};

std::shared_ptr<Model> lenet(const Options& options) {
  return std::make_shared<LeNet>(ImageClassifier::Extents{1, or_published(options.image_size, options.small ? 16 : 32),
                                                          or_published(options.classes, 10), options.dtype});
}

constexpr Entry kEntries[] = {
    {"lenet", "LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998", 61'706,
     "60 thousand in the paper, whose second convolution leaves out some connections", lenet},
};

}  // namespace

std::span<const Entry> lenets() { return kEntries; }

}  // namespace ferry::models
