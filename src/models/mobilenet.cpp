// MobileNet, full width.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::Module;
using nn::Sequential;

std::shared_ptr<ConvNormRelu> layer(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                                    std::int64_t groups, DType dtype) {
  const Conv2dOptions options{.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}, .groups = groups};
  return std::make_shared<ConvNormRelu>(in, out, std::array{kernel, kernel}, options, 1e-3, dtype);
}

// A 3 x 3 convolution of each channel alone, then one of 1 x 1.
class Separable : public Module {
 public:
  Separable(std::int64_t in, std::int64_t out, std::int64_t stride, DType dtype) {
    depthwise_ = register_module("depthwise", layer(in, in, 3, stride, in, dtype));
    pointwise_ = register_module("pointwise", layer(in, out, 1, 1, 1, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override { return (*pointwise_)((*depthwise_)(x)); }

 private:
  std::shared_ptr<ConvNormRelu> depthwise_, pointwise_;
};

struct Step {
  std::int64_t width, stride;
};
constexpr Step kSteps[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                           {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
constexpr Step kSmallSteps[] = {{64, 1}, {128, 2}, {256, 2}, {256, 1}, {512, 2}};

class MobileNet : public ImageClassifier {
 public:
  MobileNet(const Extents& extents, bool small, std::int64_t segments) : ImageClassifier(extents), segments_(segments) {
    const DType dtype = extents.dtype;
    const std::int64_t divisor = small ? 8 : 1;  // of every width
    std::int64_t channels = 32 / divisor;
    std::vector<std::shared_ptr<Module>> layers = {layer(extents.channels, channels, 3, 2, 1, dtype)};
    for (const Step& step : small ? std::span<const Step>(kSmallSteps) : kSteps) {
      layers.push_back(std::make_shared<Separable>(channels, step.width / divisor, step.stride, dtype));
      channels = step.width / divisor;
    }
    features_ = register_module("features", std::make_shared<Sequential>(std::move(layers)));
    classifier_ = register_module("classifier", std::make_shared<nn::Linear>(channels, extents.classes, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const std::shared_ptr<Sequential> stages[] = {features_};
    return (*classifier_)(mean(run_blocks(stages, x, segments_), {2, 3}));
  }

 private:
  const std::int64_t segments_;
  std::shared_ptr<Sequential> features_;
  std::shared_ptr<nn::Linear> classifier_;
};

std::shared_ptr<Model> mobilenet_v1(const Options& options) {
  const bool small = options.small;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 64 : 224),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  return std::make_shared<MobileNet>(extents, small, options.checkpoint_segments);
}

constexpr Entry kEntries[] = {
    {"mobilenet_v1",
     "Howard et al., MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications, 2017, "
     "arXiv:1704.04861",
     4'231'976, "table 8 of the paper: 4.2 million; keras.applications: 4,231,976 trainable", mobilenet_v1},
};

}  // namespace

std::span<const Entry> mobilenets() { return kEntries; }

}  // namespace ferry::models
