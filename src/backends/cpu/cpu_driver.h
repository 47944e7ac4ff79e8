// The host as a Driver: oneDNN and TBB kernels that run in the calling thread at launch. Streams and events exist and
// are always complete. With a virtual clock, launches advance it by the host model instead of taking real time.
#pragma once

#include <memory>
#include <span>

#include "src/device/device_spec.h"
#include "src/device/driver.h"
#include "src/device/ordering_checker.h"
#include "src/device/virtual_clock.h"

namespace ferry {

struct CpuOptions {
  bool values = true;                   // false: timing only; memory is reserved without contents, kernels do not run
  std::shared_ptr<VirtualClock> clock;  // null: real time
  DeviceSpec model;                     // used with a virtual clock
  bool measured_time = false;           // with a virtual clock: advance by measured time, so that runs differ
  std::shared_ptr<OrderingChecker> checker;  // null: unchecked
};

std::unique_ptr<Driver> make_cpu_driver(CpuOptions options);

// The kernels of the host, in src/backends/cpu/kernel_list.cpp; also what simulated GPUs compute with.
std::span<const KernelEntry> cpu_kernels();

}  // namespace ferry
