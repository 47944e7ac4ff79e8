// Measuring a GPU through its driver: what a device spec states of it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/device/device_spec.h"
#include "src/runtime/runtime_core.h"

namespace ferry::cli {

// The spec of the runtime's first GPU. Peaks of memory and arithmetic are not measurable and taken from `base`, with
// their sources; how much of them each class of ops reaches, the costs of kernels, launches and allocations, and the
// link's figures are measured. Takes some seconds and about 1 GiB of the GPU's memory; less memory makes the arrays
// smaller. Throws: InvalidArgument without a GPU, OutOfMemory, DeviceError.
DeviceSpec calibrate(RuntimeCore& core, const DeviceSpec& base);

// The preset that describes the driver's GPU: the one it simulates, or the one whose name its description has.
// Throws: InvalidArgument when there is none, naming the presets.
DeviceSpec base_spec_of(const DriverInfo& info);

// As load_device_spec reads it. A figure without a source in spec.sources is said to be measured on `device`.
nlohmann::ordered_json spec_json(const DeviceSpec& spec, const std::string& device);

}  // namespace ferry::cli
