#include "src/models/image_classifier.h"

#include <algorithm>
#include <cmath>

#include <ferry/checkpoint.h>
#include "src/models/random_data.h"

namespace ferry::models {

Batch ImageClassifier::random_batch(std::int64_t size, std::uint64_t seed) const {
  require_samples(size);
  RandomData data(seed);
  const Tensor pictures = data.noise({size, extents_.channels, extents_.size, extents_.size}, extents_.dtype);
  return {{named(pictures, "pictures")}, named(data.ids({size}, extents_.classes), "labels"), size};
}

Tensor ImageClassifier::loss_of(const Batch& batch) { return softmax_cross_entropy(logits_of(batch), batch.targets); }

std::shared_ptr<nn::Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                        const ConvolutionOptions& options) {
  const std::int64_t padding = options.padding < 0 ? kernel / 2 : options.padding;
  const Conv2dOptions conv{
      .stride = {options.stride, options.stride}, .padding = {padding, padding}, .groups = options.groups};
  return std::make_shared<nn::Conv2d>(in, out, std::array{kernel, kernel}, conv, options.bias, options.dtype);
}

std::shared_ptr<nn::BatchNorm2d> batch_norm(std::int64_t channels, DType dtype, double epsilon) {
  return std::make_shared<nn::BatchNorm2d>(channels, 0.1, epsilon, dtype);
}

ConvNormRelu::ConvNormRelu(std::int64_t in, std::int64_t out, std::array<std::int64_t, 2> kernel,
                           const Conv2dOptions& options, double epsilon, DType dtype)
    : convolution_(register_module("conv", std::make_shared<nn::Conv2d>(in, out, kernel, options, false, dtype))),
      norm_(register_module("bn", batch_norm(out, dtype, epsilon))) {}

Tensor ConvNormRelu::forward(const Tensor& x) { return relu((*norm_)((*convolution_)(x))); }

void kaiming_convolutions(const nn::Module& module, init::Fan fan) {
  for (const nn::NamedModule& each : module.modules()) {
    const auto* layer = dynamic_cast<const nn::Conv2d*>(each.module.get());
    if (layer == nullptr) continue;
    init::kaiming_normal(layer->weight, {.fan = fan});
    if (layer->bias) init::constant(layer->bias, 0);
  }
}

Tensor run_blocks(const std::vector<Block>& blocks, const Tensor& x, std::int64_t segments) {
  if (segments == kSquareRootSegments) segments = std::lround(std::sqrt(static_cast<double>(blocks.size())));
  if (segments > 0) {
    return checkpoint_sequential(blocks, std::min(static_cast<std::size_t>(segments), blocks.size()), x);
  }
  Tensor y = x;
  for (const Block& block : blocks) y = block(y);
  return y;
}

Tensor run_blocks(std::span<const std::shared_ptr<nn::Sequential>> stages, const Tensor& x, std::int64_t segments) {
  std::vector<Block> blocks;
  for (const std::shared_ptr<nn::Sequential>& stage : stages) {
    for (std::size_t i = 0; i < stage->size(); ++i) {
      blocks.emplace_back([stage, i](const Tensor& input) { return stage->run(i, input); });
    }
  }
  return run_blocks(blocks, x, segments);
}

}  // namespace ferry::models
