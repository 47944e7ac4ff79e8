// A small residual network (He et al. 2015) for pictures of 28 x 28.
#pragma once

#include <ferry/nn.h>

namespace fashion_mnist {

// relu(bn(conv(relu(bn(conv(x))))) + x), with a projection of x where the shape changes.
class BasicBlock : public ferry::nn::Module {
 public:
  BasicBlock(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride);

 protected:
  ferry::Tensor forward(const ferry::Tensor& x) override;

 private:
  std::shared_ptr<ferry::nn::Conv2d> conv1_, conv2_, projection_;
  std::shared_ptr<ferry::nn::BatchNorm2d> bn1_, bn2_, projection_bn_;
};

class SmallResNet : public ferry::nn::Module {
 public:
  // blocks: of each of the three stages.
  explicit SmallResNet(std::int64_t classes, std::int64_t blocks = 1);

 protected:
  // x: [N, 1, 28, 28], u8 → [N, classes].
  ferry::Tensor forward(const ferry::Tensor& x) override;

 private:
  std::shared_ptr<ferry::nn::Conv2d> stem_;
  std::shared_ptr<ferry::nn::BatchNorm2d> stem_bn_;
  std::shared_ptr<ferry::nn::Sequential> layers_;
  std::shared_ptr<ferry::nn::Linear> classifier_;
};

}  // namespace fashion_mnist
