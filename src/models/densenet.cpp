// DenseNet-121, as torchvision's.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::BatchNorm2d;
using nn::Conv2d;
using nn::Module;
using nn::NamedModule;
using nn::Sequential;

// x with `growth` channels more, from a bottleneck of 4 growth channels.
class DenseLayer : public Module {
 public:
  DenseLayer(std::int64_t in, std::int64_t growth, DType dtype) {
    norm1_ = register_module("norm1", batch_norm(in, dtype));
    conv1_ = register_module("conv1", convolution(in, 4 * growth, 1, {.dtype = dtype}));
    norm2_ = register_module("norm2", batch_norm(4 * growth, dtype));
    conv2_ = register_module("conv2", convolution(4 * growth, growth, 3, {.dtype = dtype}));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor bottleneck = (*conv1_)(relu((*norm1_)(x)));
    return concat({x, (*conv2_)(relu((*norm2_)(bottleneck)))}, 1);
  }

 private:
  std::shared_ptr<BatchNorm2d> norm1_, norm2_;
  std::shared_ptr<Conv2d> conv1_, conv2_;
};

// Half the channels, half the extents.
class Transition : public Module {
 public:
  Transition(std::int64_t in, DType dtype) {
    norm_ = register_module("norm", batch_norm(in, dtype));
    conv_ = register_module("conv", convolution(in, in / 2, 1, {.dtype = dtype}));
  }

 protected:
  Tensor forward(const Tensor& x) override { return avg_pool2d((*conv_)(relu((*norm_)(x)))); }

 private:
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Conv2d> conv_;
};

struct Structure {
  std::array<int, 4> layers;  // of the dense blocks
  std::int64_t growth;        // the stem has twice as many channels
};

class DenseNet : public ImageClassifier {
 public:
  DenseNet(const Extents& extents, const Structure& structure, std::int64_t segments)
      : ImageClassifier(extents), segments_(segments) {
    const DType dtype = extents.dtype;
    std::int64_t channels = 2 * structure.growth;
    std::vector<NamedModule> features = {
        {"conv0", convolution(extents.channels, channels, 7, {.stride = 2, .dtype = dtype})},
        {"norm0", batch_norm(channels, dtype)},
        {"relu0", std::make_shared<nn::Relu>()},
        {"pool0",
         std::make_shared<nn::MaxPool2d>(Pool2dOptions{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})}};
    for (std::size_t block = 0; block < structure.layers.size(); ++block) {
      const std::string number = std::to_string(block + 1);
      std::vector<NamedModule> layers;
      for (int i = 0; i < structure.layers[block]; ++i, channels += structure.growth) {
        layers.push_back(
            {"denselayer" + std::to_string(i + 1), std::make_shared<DenseLayer>(channels, structure.growth, dtype)});
      }
      features.push_back({"denseblock" + number, std::make_shared<Sequential>(std::move(layers))});
      if (block + 1 == structure.layers.size()) break;
      features.push_back({"transition" + number, std::make_shared<Transition>(channels, dtype)});
      channels /= 2;
    }
    features.push_back({"norm5", batch_norm(channels, dtype)});
    features_ = register_module("features", std::make_shared<Sequential>(std::move(features)));
    classifier_ = register_module("classifier", std::make_shared<nn::Linear>(channels, extents.classes, true, dtype));
    kaiming_convolutions(*this, init::Fan::in);
    init::constant(classifier_->bias, 0);
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const std::shared_ptr<Sequential> stages[] = {features_};
    return (*classifier_)(mean(relu(run_blocks(stages, x, segments_)), {2, 3}));
  }

 private:
  const std::int64_t segments_;
  std::shared_ptr<Sequential> features_;
  std::shared_ptr<nn::Linear> classifier_;
};

std::shared_ptr<Model> densenet121(const Options& options) {
  const bool small = options.small;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 64 : 224),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  return std::make_shared<DenseNet>(extents, small ? Structure{{2, 2, 2, 2}, 4} : Structure{{6, 12, 24, 16}, 32},
                                    options.checkpoint_segments);
}

constexpr Entry kEntries[] = {
    {"densenet121", "Huang et al., Densely Connected Convolutional Networks, 2016, arXiv:1608.06993", 7'978'856,
     "torchvision.models", densenet121},
};

}  // namespace

std::span<const Entry> densenets() { return kEntries; }

}  // namespace ferry::models
