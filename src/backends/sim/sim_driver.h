// The simulated GPU: a Driver whose memory is an arena of its own with a hard capacity, whose streams, events and
// copies follow CUDA's rules on a virtual clock, and whose kernels are the CPU's, carried out when a value is needed.
#pragma once

#include <memory>
#include <span>

#include "src/device/device_spec.h"
#include "src/device/driver.h"
#include "src/device/ordering_checker.h"
#include "src/device/virtual_clock.h"

namespace ferry {

// In which legal order queued work is carried out.
struct ExecutionOrder {
  bool adversarial = false;  // false: issue order
  std::uint64_t seed = 0;    // chooses among legal orders
};

struct SimOptions {
  DeviceSpec spec{};
  Device device{DeviceType::gpu, 0};
  Bytes capacity{};    // 0: the spec's
  bool values = true;  // false: timing only, memory has no contents
  ExecutionOrder order{};
  std::shared_ptr<VirtualClock> clock{};       // shared with the cpu driver and other simulated GPUs
  std::shared_ptr<OrderingChecker> checker{};  // null: unchecked
  std::span<const KernelEntry> kernels{};      // host kernels that compute the values; outlive the driver
};

// Throws: InvalidArgument for a spec without memory or clock.
std::unique_ptr<Driver> make_sim_driver(SimOptions options);

}  // namespace ferry
