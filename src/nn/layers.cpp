#include <cmath>

#include <ferry/nn.h>
#include "src/base/check.h"

namespace ferry::nn {
namespace {

void require_positive(std::string_view layer, std::initializer_list<std::int64_t> extents) {
  for (const std::int64_t extent : extents) {
    FERRY_CHECK(extent > 0, InvalidArgument, "{}: an extent of {} is not positive", layer, extent);
  }
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias, DType dtype) {
  require_positive("Linear", {in_features, out_features});
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  weight = register_parameter("weight", uniform({out_features, in_features}, -bound, bound, dtype));
  if (with_bias) bias = register_parameter("bias", uniform({out_features}, -bound, bound, dtype));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::array<std::int64_t, 2> kernel,
               Conv2dOptions options, bool with_bias, DType dtype)
    : options_(options) {
  require_positive("Conv2d", {in_channels, out_channels, kernel[0], kernel[1], options.groups});
  FERRY_CHECK(in_channels % options.groups == 0 && out_channels % options.groups == 0, InvalidArgument,
              "Conv2d: {} input and {} output channels do not divide into {} groups", in_channels, out_channels,
              options.groups);
  const double deviation = std::sqrt(2 / static_cast<double>(out_channels * kernel[0] * kernel[1]));
  const Shape shape = {out_channels, in_channels / options.groups, kernel[0], kernel[1]};
  weight = register_parameter("weight", normal(shape, 0, deviation, dtype));
  if (with_bias) bias = register_parameter("bias", zeros({out_channels}, dtype));
}

Tensor Conv2d::forward(const Tensor& x) { return conv2d(x, weight, bias, options_); }

BatchNorm2d::BatchNorm2d(std::int64_t channels, double momentum, double epsilon, DType dtype)
    : momentum_(momentum), epsilon_(epsilon) {
  require_positive("BatchNorm2d", {channels});
  gamma = register_parameter("weight", ones({channels}, dtype));
  beta = register_parameter("bias", zeros({channels}, dtype));
  running_mean = register_buffer("running_mean", zeros({channels}, dtype));
  running_var = register_buffer("running_var", ones({channels}, dtype));
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  return batch_norm(x, gamma, beta, running_mean, running_var, {training(), momentum_, epsilon_});
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 std::array<std::int64_t, 2> kernel, ConvTranspose2dOptions options, bool with_bias,
                                 DType dtype)
    : options_(options) {
  require_positive("ConvTranspose2d", {in_channels, out_channels, kernel[0], kernel[1], options.groups});
  FERRY_CHECK(in_channels % options.groups == 0 && out_channels % options.groups == 0, InvalidArgument,
              "ConvTranspose2d: {} input and {} output channels do not divide into {} groups", in_channels,
              out_channels, options.groups);
  const double deviation = std::sqrt(2 / static_cast<double>(in_channels * kernel[0] * kernel[1]));
  const Shape shape = {in_channels, out_channels / options.groups, kernel[0], kernel[1]};
  weight = register_parameter("weight", normal(shape, 0, deviation, dtype));
  if (with_bias) bias = register_parameter("bias", zeros({out_channels}, dtype));
}

LayerNorm::LayerNorm(const Shape& shape, double epsilon, DType dtype) : shape_(shape), epsilon_(epsilon) {
  for (const std::int64_t extent : shape) require_positive("LayerNorm", {extent});
  gamma = register_parameter("weight", ones(shape, dtype));
  beta = register_parameter("bias", zeros(shape, dtype));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double epsilon, DType dtype)
    : groups_(groups), epsilon_(epsilon) {
  require_positive("GroupNorm", {groups, channels});
  FERRY_CHECK(channels % groups == 0, InvalidArgument, "GroupNorm: {} channels do not divide into {} groups", channels,
              groups);
  gamma = register_parameter("weight", ones({channels}, dtype));
  beta = register_parameter("bias", zeros({channels}, dtype));
}

Dropout::Dropout(double p) : p_(p) {
  FERRY_CHECK(p >= 0 && p <= 1, InvalidArgument, "Dropout: the probability {} is not in [0, 1]", p);
}

Embedding::Embedding(std::int64_t rows, std::int64_t features, GradientKind gradient, DType dtype)
    : gradient_(gradient) {
  require_positive("Embedding", {rows, features});
  table = register_parameter("weight", normal({rows, features}, 0, 1, dtype));
}

Tensor Embedding::forward(const Tensor& x) { return embedding(table, x, gradient_); }

Sequential::Sequential(std::vector<std::shared_ptr<Module>> modules) : modules_(std::move(modules)) {
  for (std::size_t i = 0; i < modules_.size(); ++i) register_module(std::to_string(i), modules_[i]);
}

Sequential::Sequential(std::vector<NamedModule> modules) {
  for (NamedModule& each : modules) {
    modules_.push_back(register_module(std::move(each.name), std::move(each.module)));
  }
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const std::shared_ptr<Module>& module : modules_) y = (*module)(y);
  return y;
}

Tensor Sequential::run(std::size_t i, const Tensor& x, std::source_location where) {
  return within(where, [&] { return (*modules_[i])(x, where); });
}

}  // namespace ferry::nn
