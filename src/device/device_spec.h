// Figures of a device for the simulated GPU and the host model: a roofline per op class. Each number carries its
// source.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/units.h>
#include "src/device/driver.h"

namespace ferry {

struct LinkSpec {
  double bytes_per_second = 0;  // pinned
  Nanoseconds latency{};
};

struct DeviceSpec {
  std::string name;         // "rtx2080ti"
  std::string description;  // "NVIDIA GeForce RTX 2080 Ti"
  Bytes memory;
  double bytes_per_second = 0;                         // device memory, peak
  std::array<double, kDTypeCount> flops_per_second{};  // peak by dtype
  std::array<double, kOpClassCount> efficiency{};      // of the roof that binds, by op class
  Nanoseconds kernel_cost{};                           // fixed part of each kernel's time on the device
  Nanoseconds launch_cost{};                           // host time to launch a kernel
  Nanoseconds allocation_cost{};                       // host time of a device allocation
  LinkSpec host_to_device, device_to_host;
  double pageable_factor = 1;                                // of the link's bandwidth, for pageable host memory
  std::vector<std::pair<std::string, std::string>> sources;  // field → where the number is from

  // max(flops / (peak × efficiency), bytes / (bandwidth × efficiency)) + kernel_cost.
  Nanoseconds duration(const Cost& cost) const;
  Nanoseconds copy_duration(Bytes size, CopyDirection direction, HostMemory memory) const;
};

// The presets built into the library, "host" (the model of the CPU) among them.
std::vector<std::string> device_spec_names();

// A preset by name, or a JSON file by path (a name that contains '/' or ends in ".json").
// Throws: InvalidArgument for an unknown name (listing the presets), ParseError (file, byte, field) for a bad file.
DeviceSpec load_device_spec(const std::string& name_or_path);

}  // namespace ferry
