// Where an op runs or a tensor lives.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

enum class DeviceType : std::int8_t { cpu, gpu };

// The host, or one of a runtime's GPUs (CUDA or simulated) by index.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr auto operator<=>(const Device&) const = default;
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_gpu() const { return type == DeviceType::gpu; }
};

// "cpu", "gpu:0"
std::string to_string(Device device);

// Reads "cpu", "gpu" (= "gpu:0") or "gpu:N". Whether the device exists is not checked here.
// Throws: InvalidArgument for other text, saying what is legal.
Device parse_device(std::string_view text);

// Tags that name a device in code: DeviceGuard<cpu>, DeviceGuard<gpu>.
struct cpu {
  static constexpr Device device{DeviceType::cpu, 0};
};
struct gpu {
  static constexpr Device device{DeviceType::gpu, 0};
};

}  // namespace ferry
