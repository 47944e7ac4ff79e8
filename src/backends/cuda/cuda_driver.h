// The driver of one NVIDIA GPU over the CUDA runtime: its memory, streams, events, copies and launches.
#pragma once

#include <memory>

#include "src/device/driver.h"

namespace ferry::cuda_backend {

// CUDA device `index`, shown as `as`. Throws: DeviceError when it does not answer.
std::unique_ptr<Driver> make_cuda_driver(int index, Device as);

// Devices that can be used; 0 with *reason set (static storage) when there are none.
int count_devices(const char** reason);

}  // namespace ferry::cuda_backend
