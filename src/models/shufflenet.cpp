// ShuffleNet V2 of width 1, as torchvision's.
#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::Module;
using nn::Sequential;
using Layers = std::vector<std::shared_ptr<Module>>;

// Channels of two groups in turn: 0, C / 2, 1, C / 2 + 1, …; the result is channels-last.
Tensor shuffled(const Tensor& x) {
  const std::int64_t n = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const Tensor grouped = reshape(permute(x, {0, 2, 3, 1}), {n, height, width, 2, channels / 2});
  return permute(reshape(transpose(grouped, 3, 4), {n, height, width, channels}), {0, 3, 1, 2});
}

void add_pointwise(Layers& layers, std::int64_t in, std::int64_t out, DType dtype) {
  layers.push_back(convolution(in, out, 1, {.dtype = dtype}));
  layers.push_back(batch_norm(out, dtype));
  layers.push_back(std::make_shared<nn::Relu>());
}

void add_depthwise(Layers& layers, std::int64_t channels, std::int64_t stride, DType dtype) {
  layers.push_back(convolution(channels, channels, 3, {.stride = stride, .groups = channels, .dtype = dtype}));
  layers.push_back(batch_norm(channels, dtype));
}

// Stride 1: one half of the channels passes by. Stride 2: both branches see all of them.
class Unit : public Module {
 public:
  Unit(std::int64_t in, std::int64_t out, std::int64_t stride, DType dtype) {
    const std::int64_t width = out / 2;
    if (stride > 1) {
      Layers layers;
      add_depthwise(layers, in, stride, dtype);
      add_pointwise(layers, in, width, dtype);
      branch1_ = register_module("branch1", std::make_shared<Sequential>(std::move(layers)));
    }
    Layers layers;
    add_pointwise(layers, stride > 1 ? in : width, width, dtype);
    add_depthwise(layers, width, stride, dtype);
    add_pointwise(layers, width, width, dtype);
    branch2_ = register_module("branch2", std::make_shared<Sequential>(std::move(layers)));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    if (branch1_) return shuffled(concat({(*branch1_)(x), (*branch2_)(x)}, 1));
    const std::int64_t half = x.size(1) / 2;
    return shuffled(concat({narrow(x, 1, 0, half), (*branch2_)(narrow(x, 1, half, half))}, 1));
  }

 private:
  std::shared_ptr<Sequential> branch1_, branch2_;
};

struct Structure {
  std::int64_t stem;
  struct Stage {
    std::int64_t units, width;
  };
  std::array<Stage, 3> stages;
  std::int64_t features;
};

class ShuffleNet : public ImageClassifier {
 public:
  ShuffleNet(const Extents& extents, const Structure& structure, std::int64_t segments)
      : ImageClassifier(extents), segments_(segments) {
    const DType dtype = extents.dtype;
    conv1_ =
        register_module("conv1", std::make_shared<Sequential>(Layers{
                                     convolution(extents.channels, structure.stem, 3, {.stride = 2, .dtype = dtype}),
                                     batch_norm(structure.stem, dtype), std::make_shared<nn::Relu>()}));
    std::int64_t channels = structure.stem;
    for (std::size_t i = 0; i < structure.stages.size(); ++i) {
      const auto [units, width] = structure.stages[i];
      Layers layers;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        layers.push_back(std::make_shared<Unit>(channels, width, unit == 0 ? 2 : 1, dtype));
        channels = width;
      }
      stages_.push_back(
          register_module("stage" + std::to_string(i + 2), std::make_shared<Sequential>(std::move(layers))));
    }
    Layers last;
    add_pointwise(last, channels, structure.features, dtype);
    conv5_ = register_module("conv5", std::make_shared<Sequential>(std::move(last)));
    fc_ = register_module("fc", std::make_shared<nn::Linear>(structure.features, extents.classes, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor stem = max_pool2d((*conv1_)(x), {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    return (*fc_)(mean((*conv5_)(run_blocks(stages_, stem, segments_)), {2, 3}));
  }

 private:
  const std::int64_t segments_;
  std::shared_ptr<Sequential> conv1_, conv5_;
  std::vector<std::shared_ptr<Sequential>> stages_;
  std::shared_ptr<nn::Linear> fc_;
};

std::shared_ptr<Model> shufflenet_v2(const Options& options) {
  const bool small = options.small;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 64 : 224),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  const Structure structure =
      small ? Structure{8, {{{2, 16}, {2, 24}, {1, 32}}}, 48} : Structure{24, {{{4, 116}, {8, 232}, {4, 464}}}, 1024};
  return std::make_shared<ShuffleNet>(extents, structure, options.checkpoint_segments);
}

constexpr Entry kEntries[] = {
    {"shufflenet_v2",
     "Ma et al., ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design, 2018, arXiv:1807.11164",
     2'278'604, "torchvision.models (shufflenet_v2_x1_0)", shufflenet_v2},
};

}  // namespace

std::span<const Entry> shufflenets() { return kEntries; }

}  // namespace ferry::models
