#include <memory>
#include <vector>

#include <torch/torch.h>

#include "benchmarks/resnet.h"
#include "benchmarks/resnet_libtorch.h"

namespace nn = torch::nn;
using torch::Tensor;

namespace {

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

nn::ReLU relu_in_place() { return nn::ReLU(nn::ReLUOptions(true)); }

// relu(residual(x) + shortcut(x)), in place where torchvision is.
struct BottleneckImpl : nn::Module {
  nn::Sequential residual, shortcut;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
    const std::int64_t out = 4 * width;
    residual =
        register_module("residual", nn::Sequential(convolution(in, width, 1), nn::BatchNorm2d(width), relu_in_place(),
                                                   convolution(width, width, 3, stride), nn::BatchNorm2d(width),
                                                   relu_in_place(), convolution(width, out, 1), nn::BatchNorm2d(out)));
    if (stride != 1 || in != out) {
      shortcut = register_module("shortcut", nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
    }
  }

  Tensor forward(const Tensor& x) {
    Tensor y = residual->forward(x);
    y += shortcut.is_empty() || shortcut->is_empty() ? x : shortcut->forward(x);
    return y.relu_();
  }
};
TORCH_MODULE(Bottleneck);

struct ResNet50 {
  nn::Sequential layers;

  ResNet50() {
    layers->push_back(convolution(3, 64, 7, 2));
    layers->push_back(nn::BatchNorm2d(64));
    layers->push_back(relu_in_place());
    layers->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
    std::int64_t in = 64, width = 64;
    for (const int blocks : {3, 4, 6, 3}) {
      for (int i = 0; i < blocks; ++i) {
        layers->push_back(Bottleneck(in, width, i == 0 && width > 64 ? 2 : 1));
        in = 4 * width;
      }
      width *= 2;
    }
    layers->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
    layers->push_back(nn::Flatten());
    layers->push_back(nn::Linear(in, bench::kResnetClasses));
  }
};

}  // namespace

bench::Batch bench::resnet50_step(torch::MemoryFormat format) {
  ResNet50 model;
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& each : model.layers->parameters()) {
      if (each.dim() == 4) each.set_data(each.contiguous(format));
    }
  }
  const Tensor x = torch::randn({kResnetBatch, 3, kResnetImage, kResnetImage}).contiguous(format);
  const Tensor labels = torch::randint(kResnetClasses, {kResnetBatch}, torch::kInt64);
  auto optimizer = std::make_shared<torch::optim::SGD>(model.layers->parameters(),
                                                       torch::optim::SGDOptions(kResnetRate).momentum(kResnetMomentum));
  return repeat([=]() mutable {
    torch::cross_entropy_loss(model.layers->forward(x), labels).backward();
    optimizer->step();
    for (Tensor& each : model.layers->parameters()) each.mutable_grad() = Tensor();
  });
}
