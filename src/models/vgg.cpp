// VGG networks, as torchvision's without batch norm.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::Module;
using nn::Sequential;

// The number of convolutions in each of the five stages, which a pooling ends.
using Stages = std::array<int, 5>;

struct Widths {
  std::int64_t first, last, hidden;  // of the first and the widest stages, and of the hidden linear layers
  std::int64_t side;                 // of the pictures that the linear layers see
};

class Vgg : public ImageClassifier {
 public:
  Vgg(const Extents& extents, const Stages& stages, const Widths& widths, std::int64_t segments)
      : ImageClassifier(extents), segments_(segments) {
    const DType dtype = extents.dtype;
    std::vector<std::shared_ptr<Module>> layers;
    std::int64_t channels = extents.channels, width = widths.first;
    for (const int count : stages) {
      for (int i = 0; i < count; ++i) {
        layers.push_back(convolution(channels, width, 3, {.bias = true, .dtype = dtype}));
        layers.push_back(std::make_shared<nn::Relu>());
        channels = width;
      }
      layers.push_back(std::make_shared<nn::MaxPool2d>(Pool2dOptions{}));
      width = std::min(2 * width, widths.last);
    }
    features_ = register_module("features", std::make_shared<Sequential>(std::move(layers)));
    kaiming_convolutions(*this, init::Fan::out);
    side_ = widths.side;
    const auto linear = [&](std::int64_t in, std::int64_t out) {
      auto layer = std::make_shared<nn::Linear>(in, out, true, dtype);
      init::normal(layer->weight, 0, 0.01);
      init::constant(layer->bias, 0);
      return layer;
    };
    const auto relu = [] { return std::make_shared<nn::Relu>(); };
    classifier_ = register_module("classifier", std::make_shared<Sequential>(std::vector<nn::NamedModule>{
                                                    {"0", linear(channels * side_ * side_, widths.hidden)},
                                                    {"1", relu()},
                                                    {"2", std::make_shared<nn::Dropout>()},
                                                    {"3", linear(widths.hidden, widths.hidden)},
                                                    {"4", relu()},
                                                    {"5", std::make_shared<nn::Dropout>()},
                                                    {"6", linear(widths.hidden, extents.classes)}}));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const std::shared_ptr<Sequential> stages[] = {features_};
    const Tensor y = run_blocks(stages, x, segments_);
    const bool fits = y.size(2) == side_ && y.size(3) == side_;
    return (*classifier_)(flatten(fits ? y : adaptive_avg_pool2d(y, {side_, side_}), 1));
  }

 private:
  const std::int64_t segments_;
  std::int64_t side_ = 0;
  std::shared_ptr<Sequential> features_, classifier_;
};

std::shared_ptr<Model> vgg(const Options& options, const Stages& stages) {
  const bool small = options.small;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 32 : 224),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  return std::make_shared<Vgg>(extents, small ? Stages{1, 1, 2, 1, 1} : stages,
                               small ? Widths{4, 16, 32, 1} : Widths{64, 512, 4096, 7}, options.checkpoint_segments);
}

std::shared_ptr<Model> vgg16(const Options& options) { return vgg(options, {2, 2, 3, 3, 3}); }
std::shared_ptr<Model> vgg19(const Options& options) { return vgg(options, {2, 2, 4, 4, 4}); }

constexpr std::string_view kPaper =
    "Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014, arXiv:1409.1556";

constexpr Entry kEntries[] = {
    {"vgg16", kPaper, 138'357'544, "torchvision.models", vgg16},
    {"vgg19", kPaper, 143'667'240, "torchvision.models", vgg19},
};

}  // namespace

std::span<const Entry> vggs() { return kEntries; }

}  // namespace ferry::models
