#include "fashion_mnist/model.h"

#include <ferry/ops.h>

namespace fashion_mnist {

using namespace ferry;

namespace {

// Of the training pictures' pixels, scaled to [0, 1].
constexpr double kPixelMean = 0.286, kPixelDeviation = 0.353;

// Batch norm follows each convolution and has the bias.
std::shared_ptr<nn::Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  const Conv2dOptions options{.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}};
  return std::make_shared<nn::Conv2d>(in, out, std::array{kernel, kernel}, options, false);
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride) {
  conv1_ = register_module("conv1", convolution(in_channels, out_channels, 3, stride));
  bn1_ = register_module("bn1", std::make_shared<nn::BatchNorm2d>(out_channels));
  conv2_ = register_module("conv2", convolution(out_channels, out_channels, 3, 1));
  bn2_ = register_module("bn2", std::make_shared<nn::BatchNorm2d>(out_channels));
  if (in_channels == out_channels && stride == 1) return;
  projection_ = register_module("projection", convolution(in_channels, out_channels, 1, stride));
  projection_bn_ = register_module("projection_bn", std::make_shared<nn::BatchNorm2d>(out_channels));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = (*bn2_)((*conv2_)(relu((*bn1_)((*conv1_)(x)))));
  const Tensor shortcut = projection_ ? (*projection_bn_)((*projection_)(x)) : x;
  return relu(y + shortcut);
}

SmallResNet::SmallResNet(std::int64_t classes, std::int64_t blocks) {
  stem_ = register_module("stem", convolution(1, 16, 3, 1));
  stem_bn_ = register_module("stem_bn", std::make_shared<nn::BatchNorm2d>(16));
  std::vector<std::shared_ptr<nn::Module>> layers;
  std::int64_t in = 16;
  for (const std::int64_t out : {16, 32, 64}) {
    layers.push_back(std::make_shared<BasicBlock>(in, out, out == in ? 1 : 2));
    for (std::int64_t i = 1; i < blocks; ++i) layers.push_back(std::make_shared<BasicBlock>(out, out, 1));
    in = out;
  }
  layers_ = register_module("layers", std::make_shared<nn::Sequential>(std::move(layers)));
  classifier_ = register_module("classifier", std::make_shared<nn::Linear>(64, classes));
}

Tensor SmallResNet::forward(const Tensor& x) {
  const Tensor pixels = x.to(DType::f32) * (1 / (255 * kPixelDeviation)) - kPixelMean / kPixelDeviation;
  const Tensor features = (*layers_)(max_pool2d(relu((*stem_bn_)((*stem_)(pixels)))));
  return (*classifier_)(mean(features, {2, 3}));
}

}  // namespace fashion_mnist
