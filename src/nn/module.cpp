#include <ferry/nn_module.h>

#include "src/base/check.h"

namespace ferry::nn {

Tensor Module::operator()(const Tensor& x, std::source_location where) {
  return within(where, [&] { return forward(x); });
}

Tensor Module::forward(const Tensor& /*x*/) {
  throw InvalidArgument("the module '" + name_ + "' takes other arguments than one tensor");
}

void Module::require_new(const std::string& name) const {
  const auto taken = [&](const auto& list) {
    for (const auto& entry : list) {
      if (entry.name == name) return true;
    }
    return false;
  };
  bool used = taken(parameters_) || taken(buffers_);
  for (const auto& [child, module] : children_) used = used || child == name;
  FERRY_CHECK(!used && !name.empty() && name.find('.') == std::string::npos, InvalidArgument,
              "a module cannot register '{}': names are unique, not empty and without '.'", name);
}

Tensor Module::register_parameter(std::string name, Tensor tensor) {
  require_new(name);
  tensor = named(tensor, name);
  tensor.set_requires_grad();
  parameters_.push_back({name, tensor});
  return tensor;
}

Tensor Module::register_buffer(std::string name, Tensor tensor) {
  require_new(name);
  buffers_.push_back({name, named(tensor, name)});
  return tensor;
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  FERRY_CHECK(module != nullptr && module.get() != this, InvalidArgument, "module '{}' cannot be {}", name,
              module == nullptr ? "null" : "its own parent");
  require_new(name);
  module->name_ = name;
  children_.emplace_back(std::move(name), std::move(module));
}

void Module::collect(const std::string& prefix, bool buffers, std::vector<NamedTensor>& result) const {
  for (const NamedTensor& entry : buffers ? buffers_ : parameters_) {
    result.push_back({prefix + entry.name, entry.tensor});
  }
  for (const auto& [name, child] : children_) child->collect(prefix + name + '.', buffers, result);
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> result;
  collect("", false, result);
  return result;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> result;
  collect("", true, result);
  return result;
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> state = parameters();
  for (NamedTensor& buffer : buffers()) state.push_back(std::move(buffer));
  return state;
}

void Module::collect_modules(const std::string& prefix, std::vector<NamedModule>& result) const {
  for (const auto& [name, child] : children_) {
    result.push_back({prefix + name, child});
    child->collect_modules(prefix + name + '.', result);
  }
}

std::vector<NamedModule> Module::modules() const {
  std::vector<NamedModule> result;
  collect_modules("", result);
  return result;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::zero_grad() {
  for (NamedTensor& parameter : parameters()) parameter.tensor.zero_grad();
}

}  // namespace ferry::nn
