// Turns a device text into drivers. The only place that knows which backends there are.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ferry/runtime.h>
#include "src/device/driver.h"
#include "src/device/ordering_checker.h"

namespace ferry {

// Wraps each driver of a runtime; tests use it to inject faults. Empty: none.
using DriverDecorator = std::function<std::unique_ptr<Driver>(std::unique_ptr<Driver>, Device)>;

struct Backends {
  std::unique_ptr<Driver> cpu;
  std::vector<std::unique_ptr<Driver>> gpus;
};

// Throws: InvalidArgument for a text or preset that does not exist, ParseError for a bad spec file, DeviceError for a
// device that does not answer.
Backends make_backends(const RuntimeOptions& options, const std::shared_ptr<OrderingChecker>& checker);

// Everything this machine could run on, whatever the options: the CPU, CUDA devices or why there are none, and the
// simulated GPUs.
struct AvailableDevice {
  std::string name, description, note;
  Bytes memory;
  bool usable = true;
};
std::vector<AvailableDevice> available_devices();

}  // namespace ferry
