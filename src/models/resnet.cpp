// Residual networks: torchvision's (ImageNet, the stride of a bottleneck on its 3 x 3 convolution) and the deep one for
// CIFAR-10 with parameter-free shortcuts.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::BatchNorm2d;
using nn::Conv2d;
using nn::Module;
using nn::Sequential;

// relu(residual(x) + shortcut(x)).
class Block : public Module {
 protected:
  Block(std::int64_t stride, DType dtype) : stride_(stride), dtype_(dtype) {}

  void add(const std::string& number, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
    convolutions_.push_back(
        register_module("conv" + number, convolution(in, out, kernel, {.stride = stride, .dtype = dtype_})));
    norms_.push_back(register_module("bn" + number, batch_norm(out, dtype_)));
  }
  // A projection where the shape changes.
  void add_shortcut(std::int64_t in, std::int64_t out) {
    if (stride_ == 1 && in == out) return;
    projection_ = register_module(
        "downsample", std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{
                          convolution(in, out, 1, {.stride = stride_, .dtype = dtype_}), batch_norm(out, dtype_)}));
  }
  virtual Tensor shortcut(const Tensor& x) { return projection_ ? (*projection_)(x) : x; }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (std::size_t i = 0; i + 1 < convolutions_.size(); ++i) y = relu((*norms_[i])((*convolutions_[i])(y)));
    y = (*norms_.back())((*convolutions_.back())(y));
    return relu(y + shortcut(x));
  }

  const std::int64_t stride_;
  const DType dtype_;

 private:
  std::vector<std::shared_ptr<Conv2d>> convolutions_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
  std::shared_ptr<Sequential> projection_;
};

class BasicBlock : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride, DType dtype) : Block(stride, dtype) {
    add("1", in, width, 3, stride);
    add("2", width, width, 3);
    add_shortcut(in, width);
  }
};

class Bottleneck : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, DType dtype) : Block(stride, dtype) {
    add("1", in, width, 1);
    add("2", width, width, 3, stride);
    add("3", width, kExpansion * width, 1);
    add_shortcut(in, kExpansion * width);
  }
};

// The shortcut takes every stride-th pixel and pads with channels of zeros (option A).
class PaddedBlock : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;
  PaddedBlock(std::int64_t in, std::int64_t width, std::int64_t stride, DType dtype)
      : Block(stride, dtype), padding_((width - in) / 2) {
    add("1", in, width, 3, stride);
    add("2", width, width, 3);
  }

 private:
  Tensor shortcut(const Tensor& x) override {
    if (stride_ == 1) return x;
    const Tensor pixels = slice(x, {2, 3}, {0, 0}, {x.size(2), x.size(3)}, {stride_, stride_});
    const Tensor empty = zeros({x.size(0), padding_, pixels.size(2), pixels.size(3)}, x.dtype());
    return concat({empty, pixels, empty}, 1);
  }

  const std::int64_t padding_;
};

template <class B>
std::shared_ptr<Sequential> stage(std::int64_t in, std::int64_t width, std::int64_t blocks, std::int64_t stride,
                                  DType dtype) {
  std::vector<std::shared_ptr<Module>> list;
  for (std::int64_t i = 0; i < blocks; ++i) {
    list.push_back(std::make_shared<B>(i == 0 ? in : width * B::kExpansion, width, i == 0 ? stride : 1, dtype));
  }
  return std::make_shared<Sequential>(std::move(list));
}

struct Structure {
  std::array<std::int64_t, 4> blocks;  // by stage; 0: the stage is absent
  std::int64_t width;                  // of the first stage
  bool cifar = false;                  // a stem of 3 x 3 without pooling
};

template <class B>
class ResNet : public ImageClassifier {
 public:
  ResNet(const Extents& extents, const Structure& structure, std::int64_t segments)
      : ImageClassifier(extents), cifar_(structure.cifar), segments_(segments) {
    const DType dtype = extents.dtype;
    const std::int64_t stem = structure.width;
    conv1_ = register_module(
        "conv1", convolution(extents.channels, stem, cifar_ ? 3 : 7, {.stride = cifar_ ? 1 : 2, .dtype = dtype}));
    bn1_ = register_module("bn1", batch_norm(stem, dtype));
    std::int64_t channels = stem, width = structure.width;
    for (std::size_t i = 0; i < structure.blocks.size() && structure.blocks[i] > 0; ++i, width *= 2) {
      stages_.push_back(register_module("layer" + std::to_string(i + 1),
                                        stage<B>(channels, width, structure.blocks[i], i == 0 ? 1 : 2, dtype)));
      channels = width * B::kExpansion;
    }
    fc_ = register_module("fc", std::make_shared<nn::Linear>(channels, extents.classes, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    Tensor y = relu((*bn1_)((*conv1_)(x)));
    if (!cifar_) y = max_pool2d(y, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    y = run_blocks(stages_, y, segments_);
    return (*fc_)(mean(y, {2, 3}));
  }

 private:
  const bool cifar_;
  const std::int64_t segments_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::vector<std::shared_ptr<Sequential>> stages_;
  std::shared_ptr<nn::Linear> fc_;
};

template <class B>
std::shared_ptr<Model> imagenet(const Options& options, std::array<std::int64_t, 4> blocks) {
  const bool small = options.small;
  if (small) blocks = {1, 2, 1, 1};
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 64 : 224),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  return std::make_shared<ResNet<B>>(extents, Structure{blocks, small ? 8 : 64}, options.checkpoint_segments);
}

std::shared_ptr<Model> resnet18(const Options& options) { return imagenet<BasicBlock>(options, {2, 2, 2, 2}); }
std::shared_ptr<Model> resnet34(const Options& options) { return imagenet<BasicBlock>(options, {3, 4, 6, 3}); }
std::shared_ptr<Model> resnet50(const Options& options) { return imagenet<Bottleneck>(options, {3, 4, 6, 3}); }
std::shared_ptr<Model> resnet101(const Options& options) { return imagenet<Bottleneck>(options, {3, 4, 23, 3}); }
std::shared_ptr<Model> resnet152(const Options& options) { return imagenet<Bottleneck>(options, {3, 8, 36, 3}); }

std::shared_ptr<Model> resnet1202(const Options& options) {
  const std::int64_t blocks = options.small ? 2 : 200;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, options.small ? 16 : 32),
                                         or_published(options.classes, 10), options.dtype};
  const Structure structure{{blocks, blocks, blocks, 0}, options.small ? 4 : 16, true};
  return std::make_shared<ResNet<PaddedBlock>>(extents, structure, options.checkpoint_segments);
}

constexpr std::string_view kPaper = "He et al., Deep Residual Learning for Image Recognition, 2015, arXiv:1512.03385";
constexpr std::string_view kTorchvision = "torchvision.models";

constexpr Entry kEntries[] = {
    {"resnet18", kPaper, 11'689'512, kTorchvision, resnet18},
    {"resnet34", kPaper, 21'797'672, kTorchvision, resnet34},
    {"resnet50", kPaper, 25'557'032, kTorchvision, resnet50},
    {"resnet101", kPaper, 44'549'160, kTorchvision, resnet101},
    {"resnet152", kPaper, 60'192'808, kTorchvision, resnet152},
    {"resnet1202", kPaper, 19'421'274, "table 6 of the paper: 19.4 million, with shortcuts of option A", resnet1202},
};

}  // namespace

std::span<const Entry> resnets() { return kEntries; }

}  // namespace ferry::models
