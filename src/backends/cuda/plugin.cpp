// What ferry loads: the plug-in's entry.
#include "src/device/plugin.h"

#include "src/backends/cuda/cuda_driver.h"

namespace {

ferry::Driver* make_driver(int index, ferry::Device as) {
  return ferry::cuda_backend::make_cuda_driver(index, as).release();
}

}  // namespace

extern "C" const ferry::PluginInterface* ferry_plugin() {
  static const ferry::PluginInterface interface {
    ferry::kPluginAbiVersion, "cuda", ferry::cuda_backend::count_devices, make_driver
  };
  return &interface;
}
