// Layers: modules of one op each.
//
// A layer checks its extents when it is made and throws InvalidArgument naming the layer. Parameters are made in
// `dtype` on the current device and drawn from the runtime's random numbers as each class says.
#pragma once

#include <memory>
#include <vector>

#include <ferry/nn_module.h>
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

class Relu : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

class Tanh : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return tanh(x); }
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
