#include "src/device/plugin.h"

#include <dlfcn.h>

#include "src/base/check.h"

namespace ferry {
namespace {

constexpr int kNoVendorCode = 0;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw DeviceError(fmt::format("plug-in {}: {}", path, reason), kNoVendorCode);
}

}  // namespace

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  // Never unmapped: drivers, kernels and texts that it hands out may be held anywhere.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) refuse(path, fmt::format("cannot be loaded: {}", dlerror()));
  const std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->library_ = library;

  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntryName));
  if (entry == nullptr) refuse(path, fmt::format("is no ferry plug-in: it does not export {}", kPluginEntryName));
  plugin->interface_ = entry();
  if (plugin->interface_ == nullptr) refuse(path, fmt::format("{} returned null", kPluginEntryName));
  if (plugin->interface_->abi_version != kPluginAbiVersion) {
    refuse(path, fmt::format("was built for interface version {}, this ferry has version {}; build it again",
                             plugin->interface_->abi_version, kPluginAbiVersion));
  }
  return plugin;
}

Plugin::~Plugin() {
  if (library_ != nullptr) dlclose(library_);
}

std::string Plugin::name() const { return interface_->name; }

int Plugin::device_count(std::string* reason) const {
  const char* text = nullptr;
  const int count = interface_->device_count(&text);
  if (reason != nullptr) *reason = text == nullptr ? "" : text;
  return count;
}

std::unique_ptr<Driver> Plugin::make_driver(int index, Device as) {
  const int count = device_count(nullptr);
  FERRY_CHECK(index >= 0 && index < count, InvalidArgument, "plug-in {}: there is no device {}, it has {}", name(),
              index, count);
  return std::unique_ptr<Driver>(interface_->make_driver(index, as));
}

}  // namespace ferry
