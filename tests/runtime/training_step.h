// A small model and its training step: an embedding with row-sparse gradient on the CPU, then convolution, batch norm,
// pooling and a linear layer on the default device, cross entropy, and SGD with momentum.
#pragma once

#include <memory>
#include <vector>

#include <ferry/device_guard.h>
#include <ferry/nn.h>
#include <ferry/optim.h>

namespace ferry::test {

class TrainingStep : public nn::Module {
 public:
  static constexpr std::int64_t kBatch = 3, kTokens = 12, kFeatures = 10, kClasses = 5, kVocabulary = 50;

  explicit TrainingStep(std::int64_t channels = 6) {
    {
      const DeviceGuard<cpu> guard;
      embedding_ = register_module("embedding",
                                   std::make_shared<nn::Embedding>(kVocabulary, kFeatures, GradientKind::row_sparse));
    }
    conv_ = register_module("conv", std::make_shared<nn::Conv2d>(1, channels, std::array<std::int64_t, 2>{3, 3},
                                                                 Conv2dOptions{.padding = {1, 1}}));
    norm_ = register_module("norm", std::make_shared<nn::BatchNorm2d>(channels));
    head_ = register_module("head", std::make_shared<nn::Linear>(channels * (kTokens / 2) * (kFeatures / 2), kClasses));
    optimizer_ = std::make_unique<optim::Sgd>(*this, optim::SgdOptions{.rate = 0.1, .momentum = 0.9});
  }

  // One step on the batch of this number; its loss.
  double step(int number) {
    std::vector<std::int64_t> ids, labels;
    for (std::int64_t i = 0; i < kBatch * kTokens; ++i) ids.push_back((i * 7 + number * 13) % kVocabulary);
    for (std::int64_t i = 0; i < kBatch; ++i) labels.push_back((i + number) % kClasses);
    optimizer_->zero_grad();
    const Tensor logits = (*this)(from_vector(ids, {kBatch, kTokens}));
    const Tensor loss = softmax_cross_entropy(logits, from_vector(labels));
    loss.backward();
    optimizer_->step();
    const double value = loss.item();
    optimizer_->zero_grad();
    return value;
  }

  // The values of all parameters, and of the running statistics.
  std::vector<std::vector<float>> parameter_values() const { return values_of(parameters()); }
  std::vector<std::vector<float>> buffer_values() const { return values_of(buffers()); }
  optim::Sgd& optimizer() { return *optimizer_; }

 protected:
  Tensor forward(const Tensor& ids) override {
    Tensor rows;
    {
      const DeviceGuard<cpu> guard;
      rows = (*embedding_)(ids);
    }
    const Tensor image = reshape(rows, {kBatch, 1, kTokens, kFeatures});
    const Tensor features = max_pool2d(relu((*norm_)((*conv_)(image))));
    return (*head_)(flatten(features, 1));
  }

 private:
  static std::vector<std::vector<float>> values_of(const std::vector<nn::NamedTensor>& tensors) {
    std::vector<std::vector<float>> values;
    for (const nn::NamedTensor& each : tensors) values.push_back(each.tensor.to_vector<float>());
    return values;
  }

  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Conv2d> conv_;
  std::shared_ptr<nn::BatchNorm2d> norm_;
  std::shared_ptr<nn::Linear> head_;
  std::unique_ptr<optim::Sgd> optimizer_;
};

}  // namespace ferry::test
