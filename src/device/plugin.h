// Backends in libraries of their own, loaded with dlopen when the runtime starts. A plug-in links libferry.so and
// exports the one C function below.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/device/driver.h"

namespace ferry {

// Raised whenever Driver or what it refers to changes.
constexpr int kPluginAbiVersion = 1;

// What a plug-in's `ferry_plugin` function returns; lives as long as the library.
struct PluginInterface {
  int abi_version;   // kPluginAbiVersion of its build
  const char* name;  // "cuda"
  // Devices present; 0 with *reason set (static storage) when there are none, such as "no NVIDIA driver".
  int (*device_count)(const char** reason);
  // A driver for device `index`, shown as gpu:`as`. Throws: DeviceError.
  Driver* (*make_driver)(int index, Device as);
};
using PluginEntry = const PluginInterface* (*)();
constexpr const char* kPluginEntryName = "ferry_plugin";

// A loaded library. It stays in the process, so that drivers made from it may outlive this object.
//
// Thread-safety: const methods may be called from any thread.
class Plugin {
 public:
  // Throws: DeviceError when the file is missing, is no plug-in or was built for another ABI.
  static std::shared_ptr<Plugin> load(const std::string& path);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  std::string name() const;
  // *reason (may be null) tells why when there are none.
  int device_count(std::string* reason) const;
  // Throws: InvalidArgument for an index that is not below device_count(), DeviceError.
  std::unique_ptr<Driver> make_driver(int index, Device as);

 private:
  Plugin() = default;
  void* library_ = nullptr;
  const PluginInterface* interface_ = nullptr;
};

}  // namespace ferry
