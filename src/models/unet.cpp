// U-Net as published: convolutions without padding, so that 572 x 572 pixels in give the classes of 388 x 388.
#include <cmath>

#include "src/base/check.h"
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

using nn::Conv2d;
using nn::Module;

// relu(convolution(relu(convolution(x)))), each of 3 x 3.
class DoubleConvolution : public Module {
 public:
  DoubleConvolution(std::int64_t in, std::int64_t out, DType dtype) {
    const ConvolutionOptions options{.padding = 0, .bias = true, .dtype = dtype};
    conv1_ = register_module("conv1", convolution(in, out, 3, options));
    conv2_ = register_module("conv2", convolution(out, out, 3, options));
  }

 protected:
  Tensor forward(const Tensor& x) override { return relu((*conv2_)(relu((*conv1_)(x)))); }

 private:
  std::shared_ptr<Conv2d> conv1_, conv2_;
};

// The middle of x, of y's height and width.
Tensor cropped(const Tensor& x, const Tensor& y) {
  const std::int64_t top = (x.size(2) - y.size(2)) / 2, left = (x.size(3) - y.size(3)) / 2;
  return narrow(narrow(x, 2, top, y.size(2)), 3, left, y.size(3));
}

// Twice the extents and half the channels, beside the middle of what went down at that height.
class Up : public Module {
 public:
  Up(std::int64_t in, DType dtype) {
    const ConvTranspose2dOptions twice{.stride = {2, 2}};
    up_ = register_module(
        "up", std::make_shared<nn::ConvTranspose2d>(in, in / 2, std::array<std::int64_t, 2>{2, 2}, twice, true, dtype));
    convolutions_ = register_module("convolutions", std::make_shared<DoubleConvolution>(in, in / 2, dtype));
  }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& skipped, const std::source_location& where) {
    return within(where, [&] {
      const Tensor y = (*up_)(x);
      return (*convolutions_)(concat({cropped(skipped, y), y}, 1));
    });
  }

 private:
  std::shared_ptr<nn::ConvTranspose2d> up_;
  std::shared_ptr<DoubleConvolution> convolutions_;
};

// Each level down halves the extents and loses 4 pixels, each up doubles them and loses 4. Throws: InvalidArgument.
std::int64_t result_size(std::int64_t size, std::int64_t levels) {
  std::int64_t side = size;
  for (std::int64_t i = 0; i < levels; ++i) {
    side -= 4;
    FERRY_CHECK(side > 0 && side % 2 == 0, InvalidArgument,
                "unet: pictures of {0} x {0} cannot be halved {1} times between convolutions; 572 can", size, levels);
    side /= 2;
  }
  side -= 4;
  for (std::int64_t i = 0; i < levels; ++i) side = 2 * side - 4;
  FERRY_CHECK(side > 0, InvalidArgument, "unet: nothing is left of pictures of {0} x {0}; the least is 188 x 188",
              size);
  return side;
}

struct Extents {
  std::int64_t size, classes, width, levels;
  DType dtype;
};

// Pictures [N, 1, size, size] → scores [N, classes, result, result]. Targets: classes [N, result, result].
class UNet : public Model {
 public:
  explicit UNet(const Extents& extents) : extents_(extents), result_(result_size(extents.size, extents.levels)) {
    std::int64_t channels = 1, width = extents.width;
    for (std::int64_t level = 0; level <= extents.levels; ++level, width *= 2) {
      down_.push_back(register_module("down" + std::to_string(level),
                                      std::make_shared<DoubleConvolution>(channels, width, extents.dtype)));
      channels = width;
    }
    for (std::int64_t level = extents.levels; level-- > 0; channels /= 2) {
      up_.push_back(register_module("up" + std::to_string(level), std::make_shared<Up>(channels, extents.dtype)));
    }
    scores_ =
        register_module("scores", convolution(channels, extents.classes, 1, {.bias = true, .dtype = extents.dtype}));
    kaiming_convolutions(*this, init::Fan::in);
  }

  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    const Tensor pictures = named(data.noise({size, 1, extents_.size, extents_.size}, extents_.dtype), "pictures");
    return {{pictures}, named(data.ids({size, result_, result_}, extents_.classes), "classes"), size};
  }

 protected:
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> skipped;
    Tensor y = (*down_[0])(x);
    for (std::size_t level = 1; level < down_.size(); ++level) {
      skipped.push_back(y);
      y = (*down_[level])(max_pool2d(y));
    }
    for (const std::shared_ptr<Up>& up : up_) {
      y = (*up)(y, skipped.back(), std::source_location::current());
      skipped.pop_back();
    }
    return (*scores_)(y);
  }
  Tensor logits_of(const Batch& batch) override { return forward(batch.inputs[0]); }
  Tensor loss_of(const Batch& batch) override {
    // Channels-last in memory: rows of pixels are a view.
    const Tensor pixels = reshape(permute(logits_of(batch), {0, 2, 3, 1}), {-1, extents_.classes});
    return softmax_cross_entropy(pixels, flatten(batch.targets));
  }

 private:
  const Extents extents_;
  const std::int64_t result_;
  std::vector<std::shared_ptr<DoubleConvolution>> down_;
  std::vector<std::shared_ptr<Up>> up_;
  std::shared_ptr<Conv2d> scores_;
};

std::shared_ptr<Model> unet(const Options& options) {
  const bool small = options.small;
  return std::make_shared<UNet>(Extents{or_published(options.image_size, small ? 44 : 572),
                                        or_published(options.classes, 2), small ? 4 : 64, small ? 2 : 4,
                                        options.dtype});
}

constexpr Entry kEntries[] = {
    {"unet",
     "Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, 2015, arXiv:1505.04597",
     31'030'658, "figure 1 of the paper, counted: 23 convolutions with biases, one channel in, two classes out", unet},
};

}  // namespace

std::span<const Entry> unets() { return kEntries; }

}  // namespace ferry::models
