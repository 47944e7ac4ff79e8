// What image classifiers share: pictures in, class scores out, cross entropy; and the layers they are built of.
#pragma once

#include <memory>

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

struct ConvolutionOptions {
  std::int64_t stride = 1;
  std::int64_t padding = -1;  // -1: half the kernel, so that a stride of 1 keeps the extents
  std::int64_t groups = 1;
  bool bias = false;
  DType dtype = DType::f32;
};
std::shared_ptr<nn::Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                        const ConvolutionOptions& options);

// Runs stages of blocks one after the other; with segments > 0 in so many checkpointed segments of blocks.
Tensor run_blocks(std::span<const std::shared_ptr<nn::Sequential>> stages, const Tensor& x, std::int64_t segments);

}  // namespace ferry::models
