// Modules: parameters with names, and the layers that use them.
//
// A module registers its parameters, buffers and children under names; `parameters()` walks them depth first, so that
// "layer1.0.conv.weight" names one. A module's parameters live where they were made: build it inside a DeviceGuard to
// place it. Reports show the module path and the user's line of the outermost call.
#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <ferry/ops.h>
#include <ferry/scope.h>
#include <ferry/tensor.h>

namespace ferry::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Runs forward inside the module's scope.
  Tensor operator()(const Tensor& x, std::source_location where = std::source_location::current());

  // Depth first, in order of registration.
  std::vector<NamedTensor> parameters() const;
  // State that is saved but not trained: running statistics.
  std::vector<NamedTensor> buffers() const;

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  void zero_grad();

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

  // Each returns what it registers. Names are unique within the module. Throws: InvalidArgument.
  Tensor register_parameter(std::string name, Tensor tensor);
  Tensor register_buffer(std::string name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }

 private:
  void add_child(std::string name, std::shared_ptr<Module> module);
  void collect(const std::string& prefix, bool buffers, std::vector<NamedTensor>& result) const;
  void require_new(const std::string& name) const;

  std::string name_;  // as its parent knows it
  bool training_ = true;
  std::vector<NamedTensor> parameters_, buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

// Saves parameters and buffers as a safetensors file, written beside `path` and then renamed.
void save(const Module& module, const std::string& path);
// Throws: ParseError (no safetensors file, or one that lacks a tensor or has one of another shape or dtype, naming it);
// the module is unchanged then.
void load(Module& module, const std::string& path);

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

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Pool2dOptions options) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
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

// Modules one after the other, named by their position.
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<std::shared_ptr<Module>> modules);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

}  // namespace ferry::nn
