// Layers with batch norms, for tests of what a memory budget does with their statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ferry/ferry.h>

namespace ferry::test {

using Tensors = std::vector<Tensor>;

inline constexpr std::int64_t kImages = 32, kChannels = 16, kExtent = 32;  // 2 MiB

inline Tensor some_images(DType dtype = DType::f32) {
  return normal({kImages, kChannels, kExtent, kExtent}, 0, 1, dtype);
}

// Its x requires a gradient, and so the statistics are kept.
struct NormLayer {
  Tensor weight = normal({kChannels, kChannels, 1, 1}, 0, 0.3).set_requires_grad();
  Tensor gamma = normal({kChannels}, 0.5, 0.5).set_requires_grad();
  Tensor beta = normal({kChannels}, 0, 0.5).set_requires_grad();

  Tensors parameters() const { return {weight, gamma, beta}; }
  Tensor x(const Tensor& images = some_images()) const { return conv2d(images, weight); }
  Tensor normalized(const Tensor& features) const { return batch_norm(features, gamma, beta, {}, {}); }
  Tensor y() const { return normalized(x()); }
};

// Layers of convolution, batch norm and relu, and their optimizer.
class NormNet {
 public:
  NormNet() {
    Tensors parameters;
    for (const NormLayer& layer : layers_)
      for (const Tensor& each : layer.parameters()) parameters.push_back(each);
    optimizer_.emplace(parameters, optim::SgdOptions{.rate = 0.05, .momentum = 0.9});
  }

  void step(bool checkpoints = false) {
    const Tensor loss = forward(checkpoints);
    loss.backward();
    keep(loss);
    for (const NormLayer& layer : layers_)
      for (const Tensor& each : layer.parameters()) keep(each.grad());
    optimizer_->step();
    optimizer_->zero_grad();
  }

  // All losses and gradients, and what was learnt.
  std::vector<std::vector<float>> bits() {
    for (const NormLayer& layer : layers_)
      for (const Tensor& each : layer.parameters()) keep(each);
    for (const Tensor& each : {mean_, variance_}) keep(each);
    return bits_;
  }

 private:
  Tensor forward(bool checkpoints) const {
    Tensor value = some_images();
    for (const NormLayer& layer : layers_) {
      const auto block = [this, layer](const Tensor& in) {
        return relu(batch_norm(layer.x(in), layer.gamma, layer.beta, mean_, variance_, {.training = true}));
      };
      value = checkpoints ? checkpoint(block, value) : block(value);
    }
    return mean(square(value));
  }
  void keep(const Tensor& tensor) { bits_.push_back(tensor.to_vector<float>()); }

  std::vector<NormLayer> layers_ = std::vector<NormLayer>(8);
  Tensor mean_ = zeros({kChannels}), variance_ = ones({kChannels});
  std::optional<optim::Sgd> optimizer_;
  std::vector<std::vector<float>> bits_;
};

}  // namespace ferry::test
