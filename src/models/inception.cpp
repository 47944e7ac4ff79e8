// Inception v3 with its auxiliary classifier, as torchvision's.
#include <algorithm>

#include "src/models/families.h"
#include "src/models/image_classifier.h"

namespace ferry::models {
namespace {

using nn::Module;

constexpr double kAuxiliaryWeight = 0.4;  // of the auxiliary loss, as torchvision's training script has it

struct Layer {
  const char* name;
  std::int64_t width;
  std::array<std::int64_t, 2> kernel;
  std::int64_t stride = 1;
  bool padded = true;
};

enum class Pool : std::uint8_t { none, average, maximum };

// Layers one after the other, behind a pooling where there is one. `fork` adds layers that all read the last one, whose
// results are concatenated.
struct Branch {
  std::vector<Layer> layers;
  Pool pool = Pool::none;
  std::vector<Layer> fork{};
};

class Builder {
 public:
  Builder(std::int64_t divisor, DType dtype) : divisor_(divisor), dtype_(dtype) {}

  std::int64_t width(std::int64_t published) const { return std::max<std::int64_t>(published / divisor_, 1); }
  std::shared_ptr<ConvNormRelu> operator()(std::int64_t in, const Layer& layer) const {
    const std::array<std::int64_t, 2> padding = {layer.padded ? layer.kernel[0] / 2 : 0,
                                                 layer.padded ? layer.kernel[1] / 2 : 0};
    auto result = std::make_shared<ConvNormRelu>(
        in, width(layer.width), layer.kernel, Conv2dOptions{.stride = {layer.stride, layer.stride}, .padding = padding},
        1e-3, dtype_);
    return result;
  }

 private:
  const std::int64_t divisor_;
  const DType dtype_;
};

class Mixed : public Module {
 public:
  Mixed(std::int64_t in, const std::vector<Branch>& branches, const Builder& build) {
    for (const Branch& branch : branches) {
      Path path{branch.pool, {}, {}};
      std::int64_t channels = in;
      for (const Layer& layer : branch.layers) {
        path.layers.push_back(register_module(layer.name, build(channels, layer)));
        channels = build.width(layer.width);
      }
      for (const Layer& layer : branch.fork) {
        path.fork.push_back(register_module(layer.name, build(channels, layer)));
      }
      std::int64_t results = channels;
      if (!branch.fork.empty())
        results = static_cast<std::int64_t>(branch.fork.size()) * build.width(branch.fork[0].width);
      out_ += results;
      paths_.push_back(std::move(path));
    }
  }
  std::int64_t out() const { return out_; }

 protected:
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> results;
    for (const Path& path : paths_) {
      Tensor y = x;
      if (path.pool == Pool::average) y = avg_pool2d(x, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
      if (path.pool == Pool::maximum) y = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}});
      for (const auto& layer : path.layers) y = (*layer)(y);
      for (const auto& layer : path.fork) results.push_back((*layer)(y));
      if (path.fork.empty()) results.push_back(y);
    }
    return concat(results, 1);
  }

 private:
  struct Path {
    Pool pool;
    std::vector<std::shared_ptr<ConvNormRelu>> layers, fork;
  };
  std::vector<Path> paths_;
  std::int64_t out_ = 0;
};

std::vector<Branch> grid35(std::int64_t pool) {
  return {{{{"branch1x1", 64, {1, 1}}}},
          {{{"branch5x5_1", 48, {1, 1}}, {"branch5x5_2", 64, {5, 5}}}},
          {{{"branch3x3dbl_1", 64, {1, 1}}, {"branch3x3dbl_2", 96, {3, 3}}, {"branch3x3dbl_3", 96, {3, 3}}}},
          {{{"branch_pool", pool, {1, 1}}}, Pool::average}};
}

std::vector<Branch> reduction17() {
  return {{{{"branch3x3", 384, {3, 3}, 2, false}}},
          {{{"branch3x3dbl_1", 64, {1, 1}}, {"branch3x3dbl_2", 96, {3, 3}}, {"branch3x3dbl_3", 96, {3, 3}, 2, false}}},
          {{}, Pool::maximum}};
}

std::vector<Branch> grid17(std::int64_t width) {
  return {{{{"branch1x1", 192, {1, 1}}}},
          {{{"branch7x7_1", width, {1, 1}}, {"branch7x7_2", width, {1, 7}}, {"branch7x7_3", 192, {7, 1}}}},
          {{{"branch7x7dbl_1", width, {1, 1}},
            {"branch7x7dbl_2", width, {7, 1}},
            {"branch7x7dbl_3", width, {1, 7}},
            {"branch7x7dbl_4", width, {7, 1}},
            {"branch7x7dbl_5", 192, {1, 7}}}},
          {{{"branch_pool", 192, {1, 1}}}, Pool::average}};
}

std::vector<Branch> reduction8() {
  return {{{{"branch3x3_1", 192, {1, 1}}, {"branch3x3_2", 320, {3, 3}, 2, false}}},
          {{{"branch7x7x3_1", 192, {1, 1}},
            {"branch7x7x3_2", 192, {1, 7}},
            {"branch7x7x3_3", 192, {7, 1}},
            {"branch7x7x3_4", 192, {3, 3}, 2, false}}},
          {{}, Pool::maximum}};
}

std::vector<Branch> grid8() {
  return {{{{"branch1x1", 320, {1, 1}}}},
          {{{"branch3x3_1", 384, {1, 1}}}, Pool::none, {{"branch3x3_2a", 384, {1, 3}}, {"branch3x3_2b", 384, {3, 1}}}},
          {{{"branch3x3dbl_1", 448, {1, 1}}, {"branch3x3dbl_2", 384, {3, 3}}},
           Pool::none,
           {{"branch3x3dbl_3a", 384, {1, 3}}, {"branch3x3dbl_3b", 384, {3, 1}}}},
          {{{"branch_pool", 192, {1, 1}}}, Pool::average}};
}

// The classifier on the grid of 17 x 17, which helps training only.
class Auxiliary : public Module {
 public:
  Auxiliary(std::int64_t in, std::int64_t kernel, std::int64_t classes, const Builder& build, DType dtype) {
    conv0_ = register_module("conv0", build(in, {"conv0", 128, {1, 1}}));
    conv1_ = register_module("conv1", build(build.width(128), {"conv1", 768, {kernel, kernel}, 1, false}));
    fc_ = register_module("fc", std::make_shared<nn::Linear>(build.width(768), classes, true, dtype));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor pooled = avg_pool2d(x, {.kernel = {5, 5}, .stride = {3, 3}});
    return (*fc_)(mean((*conv1_)((*conv0_)(pooled)), {2, 3}));
  }

 private:
  std::shared_ptr<ConvNormRelu> conv0_, conv1_;
  std::shared_ptr<nn::Linear> fc_;
};

class Inception : public ImageClassifier {
 public:
  // A small one has narrow layers and one module of each kind, and looks at pictures of 107 x 107.
  Inception(const Extents& extents, bool small, std::int64_t segments)
      : ImageClassifier(extents),
        segments_(segments),
        build_(small ? 8 : 1, extents.dtype),
        channels_(extents.channels) {
    add("Conv2d_1a_3x3", {"", 32, {3, 3}, 2, false});
    add("Conv2d_2a_3x3", {"", 32, {3, 3}, 1, false});
    add("Conv2d_2b_3x3", {"", 64, {3, 3}});
    pooled_.push_back(steps_.size());
    add("Conv2d_3b_1x1", {"", 80, {1, 1}});
    add("Conv2d_4a_3x3", {"", 192, {3, 3}, 1, false});
    pooled_.push_back(steps_.size());
    add("Mixed_5b", grid35(32));
    if (!small) add("Mixed_5c", grid35(64));
    if (!small) add("Mixed_5d", grid35(64));
    add("Mixed_6a", reduction17());
    add("Mixed_6b", grid17(128));
    if (!small) add("Mixed_6c", grid17(160));
    if (!small) add("Mixed_6d", grid17(160));
    if (!small) add("Mixed_6e", grid17(192));
    auxiliary_after_ = steps_.size();
    auxiliary_ = register_module(
        "AuxLogits", std::make_shared<Auxiliary>(channels_, small ? 1 : 5, extents.classes, build_, extents.dtype));
    add("Mixed_7a", reduction8());
    add("Mixed_7b", grid8());
    if (!small) add("Mixed_7c", grid8());
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>());
    fc_ = register_module("fc", std::make_shared<nn::Linear>(channels_, extents.classes, true, extents.dtype));
    draw_weights();
  }

 protected:
  Tensor forward(const Tensor& x) override { return run(x, nullptr); }
  Tensor loss_of(const Batch& batch) override {
    Tensor auxiliary;
    const Tensor logits = run(batch.inputs[0], training() ? &auxiliary : nullptr);
    const Tensor loss = softmax_cross_entropy(logits, batch.targets);
    if (!auxiliary) return loss;
    return loss + softmax_cross_entropy(auxiliary, batch.targets) * kAuxiliaryWeight;
  }

 private:
  void add(const std::string& name, const Layer& layer) {
    steps_.push_back(register_module(name, build_(channels_, layer)));
    channels_ = build_.width(layer.width);
  }
  void add(const std::string& name, const std::vector<Branch>& branches) {
    const auto mixed = register_module(name, std::make_shared<Mixed>(channels_, branches, build_));
    // A branch without layers passes all channels on.
    channels_ = mixed->out();
    steps_.push_back(mixed);
  }
  // All weights from a normal distribution cut off at two deviations.
  void draw_weights() const {
    for (const nn::NamedTensor& each : parameters()) {
      const bool auxiliary = each.name.starts_with("AuxLogits");
      const double deviation = auxiliary && each.name.find("conv1") != std::string::npos ? 0.01
                               : auxiliary && each.name.find("fc") != std::string::npos  ? 0.001
                                                                                         : 0.1;
      if (each.tensor.rank() >= 2) {
        init::truncated_normal(each.tensor, 0, deviation, -2 * deviation, 2 * deviation);
      }
    }
  }
  // The scores; those of the auxiliary classifier too where `auxiliary` is given.
  Tensor run(const Tensor& x, Tensor* auxiliary) {
    const Tensor grid17 = run_blocks(steps(0, auxiliary_after_), x, segments_);
    if (auxiliary != nullptr) *auxiliary = (*auxiliary_)(grid17);
    const Tensor grid8 = run_blocks(steps(auxiliary_after_, steps_.size()), grid17, segments_);
    return (*fc_)((*dropout_)(mean(grid8, {2, 3})));
  }
  // Steps [first, last) with the poolings before them.
  std::vector<Block> steps(std::size_t first, std::size_t last) const {
    std::vector<Block> blocks;
    for (std::size_t i = first; i < last; ++i) {
      const bool pooled = std::find(pooled_.begin(), pooled_.end(), i) != pooled_.end();
      blocks.emplace_back([step = steps_[i], pooled](const Tensor& x) {
        return (*step)(pooled ? max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}}) : x);
      });
    }
    return blocks;
  }

  const std::int64_t segments_;
  const Builder build_;
  std::int64_t channels_;
  std::vector<std::shared_ptr<Module>> steps_;
  std::vector<std::size_t> pooled_;  // steps with a pooling before them
  std::size_t auxiliary_after_ = 0;
  std::shared_ptr<Auxiliary> auxiliary_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Linear> fc_;
};

std::shared_ptr<Model> inception_v3(const Options& options) {
  const bool small = options.small;
  const ImageClassifier::Extents extents{3, or_published(options.image_size, small ? 107 : 299),
                                         or_published(options.classes, small ? 10 : 1000), options.dtype};
  return std::make_shared<Inception>(extents, small, options.checkpoint_segments);
}

constexpr Entry kEntries[] = {
    {"inception_v3",
     "Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2015, arXiv:1512.00567", 27'161'264,
     "torchvision.models, with the auxiliary classifier", inception_v3},
};

}  // namespace

std::span<const Entry> inceptions() { return kEntries; }

}  // namespace ferry::models
