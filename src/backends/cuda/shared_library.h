// Libraries that are opened when the program runs.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include <ferry/error.h>

namespace ferry::cuda_backend {

// Symbols of one shared library, which stays loaded: unloading a library that holds a CUDA context is not safe.
class SharedLibrary {
 public:
  static bool exists(const char* name) {
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }
  explicit SharedLibrary(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      throw DeviceError(fmt::format("{} cannot be loaded: {}; install the CUDA library or add its folder to "
                                    "LD_LIBRARY_PATH",
                                    name, dlerror()),
                        cudaErrorSharedObjectInitFailed);
    }
  }

  template <class Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (function == nullptr) {
      throw DeviceError(fmt::format("{} does not have {}; the plug-in needs a newer one", name_, symbol),
                        cudaErrorSharedObjectSymbolNotFound);
    }
  }

 private:
  const char* name_;
  void* handle_;
};

inline bool environment_is(const char* name, std::string_view value) {
  const char* const text = std::getenv(name);
  return text != nullptr && text == value;
}

}  // namespace ferry::cuda_backend
