// Modules: parameters with names, and how they are saved and loaded.
//
// A module registers its parameters, buffers and children under names; `parameters()` walks them depth first, so that
// "layer1.0.conv.weight" names one. A module's parameters live where they were made: build it inside a DeviceGuard to
// place it. Reports show the module path and the user's line of the outermost call.
#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <ferry/device_guard.h>
#include <ferry/scope.h>
#include <ferry/tensor.h>

namespace ferry::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class Module;

struct NamedModule {
  std::string name;  // its path: "layer1.0.conv"
  std::shared_ptr<Module> module;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Runs forward inside the module's scope, and on the device of place_on.
  Tensor operator()(const Tensor& x, std::source_location where = std::source_location::current());

  // Depth first, in order of registration.
  std::vector<NamedTensor> parameters() const;
  // State that is saved but not trained: running statistics.
  std::vector<NamedTensor> buffers() const;

  // Parameters, then buffers: what save writes. The tensors are the module's own.
  std::vector<NamedTensor> state_dict() const;

  // All modules below this one, depth first, in order of registration; each comes before its children.
  std::vector<NamedModule> modules() const;
  // From now on calls of this module run as inside a DeviceGuard of `device`; empty: where the caller says. Parameters
  // stay where they were made. Throws at the call: as DeviceGuard.
  void place_on(std::optional<Device> device) { device_ = device; }

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  void zero_grad();

 protected:
  // Throws: InvalidArgument in a module that takes other arguments and does not override it.
  virtual Tensor forward(const Tensor& x);

  // What operator() is made of, for modules with other arguments: body() inside the module's scope, on its device.
  template <class F>
  auto within(const std::source_location& where, F&& body) {
    const ModuleScope scope(name_, where);
    if (!device_) return body();
    const DeviceGuard<> guard(*device_);
    return body();
  }

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
  void collect_modules(const std::string& prefix, std::vector<NamedModule>& result) const;
  void require_new(const std::string& name) const;

  std::string name_;  // as its parent knows it
  bool training_ = true;
  std::optional<Device> device_;
  std::vector<NamedTensor> parameters_, buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

struct LoadOptions {
  // true: module and file hold the same names. false: what either lacks is passed over and reported; shapes must fit
  // all the same. Counters "num_batches_tracked", which PyTorch keeps beside running statistics, count for neither.
  bool strict = true;
  // true: floating tensors of another dtype are converted to the module's.
  bool convert = false;
};
struct LoadReport {
  std::vector<std::string> missing;     // of the module, not in the file
  std::vector<std::string> unexpected;  // of the file, not in the module
};

// Sets the module's tensors in place, where they are. Throws: InvalidArgument naming the tensor that is missing,
// unexpected, or of another shape or dtype; the module is unchanged then.
LoadReport load_state_dict(Module& module, const std::vector<NamedTensor>& state, const LoadOptions& options = {});

// Saves the state dict as a safetensors file, written beside `path` and then renamed.
void save(const Module& module, const std::string& path);
// Throws: ParseError (no safetensors file, or as load_state_dict for one that does not fit, naming file, byte and
// tensor); the module is unchanged then.
LoadReport load(Module& module, const std::string& path, const LoadOptions& options = {});

}  // namespace ferry::nn
