// What image classifiers share: pictures in, class scores out, cross entropy; and the layers they are built of.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <ferry/init.h>
#include <ferry/models.h>

namespace ferry::models {

// Its forward: pictures [N, channels, size, size] → scores [N, classes]. Targets: labels i64 [N].
class ImageClassifier : public Model {
 public:
  struct Extents {
    std::int64_t channels, size, classes;
    DType dtype;
  };
  explicit ImageClassifier(const Extents& extents) : extents_(extents) {}
  Batch random_batch(std::int64_t size, std::uint64_t seed) const override;

 protected:
  const Extents& extents() const { return extents_; }
  Tensor logits_of(const Batch& batch) override { return forward(batch.inputs[0]); }
  Tensor loss_of(const Batch& batch) override;

 private:
  Extents extents_;
};

// The option, or what was published where it is 0.
constexpr std::int64_t or_published(std::int64_t option, std::int64_t published) {
  return option == 0 ? published : option;
}

struct ConvolutionOptions {
  std::int64_t stride = 1;
  std::int64_t padding = -1;  // -1: half the kernel, so that a stride of 1 keeps the extents
  std::int64_t groups = 1;
  bool bias = false;
  DType dtype = DType::f32;
};
std::shared_ptr<nn::Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                        const ConvolutionOptions& options);

std::shared_ptr<nn::BatchNorm2d> batch_norm(std::int64_t channels, DType dtype, double epsilon = 1e-5);

// relu(norm(convolution(x))), the parts under the names "conv" and "bn".
class ConvNormRelu : public nn::Module {
 public:
  ConvNormRelu(std::int64_t in, std::int64_t out, std::array<std::int64_t, 2> kernel, const Conv2dOptions& options,
               double epsilon, DType dtype);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<nn::Conv2d> convolution_;
  std::shared_ptr<nn::BatchNorm2d> norm_;
};

// Draws the weights of every convolution below `module` anew, and sets biases to zero.
void kaiming_convolutions(const nn::Module& module, init::Fan fan);

using Block = std::function<Tensor(const Tensor&)>;
// Runs blocks one after the other; with segments > 0 in so many checkpointed segments.
Tensor run_blocks(const std::vector<Block>& blocks, const Tensor& x, std::int64_t segments);
// The same for stages of blocks.
Tensor run_blocks(std::span<const std::shared_ptr<nn::Sequential>> stages, const Tensor& x, std::int64_t segments);

}  // namespace ferry::models
