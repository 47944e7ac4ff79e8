// Layers: modules of one op each.
//
// A layer checks its extents when it is made and throws InvalidArgument naming the layer. Parameters are made in
// `dtype` on the current device and drawn from the runtime's random numbers as each class says.
#pragma once

#include <memory>
#include <vector>

#include <ferry/activations.h>
#include <ferry/convolution.h>
#include <ferry/nn_module.h>
#include <ferry/normalization.h>
#include <ferry/ops.h>

namespace ferry::nn {

// y = x weightᵀ + bias. weight: [out, in], uniform in ±1/√in; bias: [out], likewise.
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true, DType dtype = DType::f32);
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;
};

// weight: [out, in / groups, kh, kw], normal with variance 2 / (out kh kw) (He et al. 2015, fan out); bias: zeros.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::array<std::int64_t, 2> kernel,
         Conv2dOptions options = {}, bool bias = true, DType dtype = DType::f32);
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2dOptions options_;
};

// weight: [in, out / groups, kh, kw], normal with variance 2 / (in kh kw); bias: zeros.
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, std::array<std::int64_t, 2> kernel,
                  ConvTranspose2dOptions options = {}, bool bias = true, DType dtype = DType::f32);
  Tensor weight, bias;

 protected:
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, options_); }

 private:
  ConvTranspose2dOptions options_;
};

// gamma ones, beta zeros, running mean zeros, running variance ones.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, double momentum = 0.1, double epsilon = 1e-5, DType dtype = DType::f32);
  Tensor gamma, beta, running_mean, running_var;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double momentum_, epsilon_;
};

// Over the trailing axes. gamma: ones, beta: zeros, both of `shape`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& shape, double epsilon = 1e-5, DType dtype = DType::f32);
  Tensor gamma, beta;

 protected:
  Tensor forward(const Tensor& x) override { return layer_norm(x, shape_, gamma, beta, epsilon_); }

 private:
  Shape shape_;
  double epsilon_;
};

// gamma: ones, beta: zeros, [channels].
class GroupNorm : public Module {
 public:
  // Throws: InvalidArgument unless groups divides channels.
  GroupNorm(std::int64_t groups, std::int64_t channels, double epsilon = 1e-5, DType dtype = DType::f32);
  Tensor gamma, beta;

 protected:
  Tensor forward(const Tensor& x) override { return group_norm(x, groups_, gamma, beta, epsilon_); }

 private:
  std::int64_t groups_;
  double epsilon_;
};

class Relu : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

class Tanh : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

class Sigmoid : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class Silu : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return silu(x); }
};

class Gelu : public Module {
 public:
  explicit Gelu(GeluApproximation approximation = GeluApproximation::none) : approximation_(approximation) {}

 protected:
  Tensor forward(const Tensor& x) override { return gelu(x, approximation_); }

 private:
  GeluApproximation approximation_;
};

class LeakyRelu : public Module {
 public:
  explicit LeakyRelu(double slope = 0.01) : slope_(slope) {}

 protected:
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_); }

 private:
  double slope_;
};

class Softmax : public Module {
 public:
  explicit Softmax(int axis = -1) : axis_(axis) {}

 protected:
  Tensor forward(const Tensor& x) override { return softmax(x, axis_); }

 private:
  int axis_;
};

// In training only.
class Dropout : public Module {
 public:
  // Throws: InvalidArgument for p outside [0, 1].
  explicit Dropout(double p = 0.5);

 protected:
  Tensor forward(const Tensor& x) override { return dropout(x, p_, training()); }

 private:
  double p_;
};

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pool2dOptions options) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Pool2dOptions options) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(std::array<std::int64_t, 2> output) : output_(output) {}

 protected:
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, output_); }

 private:
  std::array<std::int64_t, 2> output_;
};

class Upsample2d : public Module {
 public:
  explicit Upsample2d(Upsample2dOptions options) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override { return upsample2d(x, options_); }

 private:
  Upsample2dOptions options_;
};

// The axes from `first_axis` on as one.
class Flatten : public Module {
 public:
  explicit Flatten(int first_axis = 1) : first_axis_(first_axis) {}

 protected:
  Tensor forward(const Tensor& x) override { return flatten(x, first_axis_); }

 private:
  int first_axis_;
};

// table: [rows, features], standard normal; x: ids.
class Embedding : public Module {
 public:
  Embedding(std::int64_t rows, std::int64_t features, GradientKind gradient = GradientKind::dense,
            DType dtype = DType::f32);
  Tensor table;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  GradientKind gradient_;
};

// Modules one after the other, named by their position unless names are given.
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<std::shared_ptr<Module>> modules);
  explicit Sequential(std::vector<NamedModule> modules);
  std::size_t size() const { return modules_.size(); }
  // The i-th module alone, inside this one's scope. Requires: i < size().
  Tensor run(std::size_t i, const Tensor& x, std::source_location where = std::source_location::current());

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

}  // namespace ferry::nn
