#include <ferry/device_guard.h>

#include "placement/placement.h"
#include "src/base/check.h"
#include "src/device/device_set.h"

namespace ferry::placement {
namespace {

thread_local const GuardFrame* innermost = nullptr;

void require_device(Device device) {
  const DeviceSet devices = current_devices();
  FERRY_CHECK(device.is_gpu() && device.index >= 0 && device.index < devices.gpus, InvalidArgument,
              "DeviceGuard: there is no {}; legal here: cpu{} ({})", to_string(device),
              devices.gpus == 0   ? std::string()
              : devices.gpus == 1 ? std::string(", gpu (= gpu:0)")
                                  : fmt::format(", gpu, gpu:0 to gpu:{}", devices.gpus - 1),
              devices.description);
}

}  // namespace

void push_guard(GuardFrame& frame) {
  if (frame.device && *frame.device != cpu::device) require_device(*frame.device);
  frame.outer = innermost;
  innermost = &frame;
}

void pop_guard(const GuardFrame& frame) noexcept { innermost = frame.outer; }

std::optional<Device> parse_guard(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return parse_device(text);
}

Placement current_placement(Device default_device) {
  if (innermost == nullptr || !innermost->device) return {default_device, trace::PlacementCause::default_device};
  return {*innermost->device, innermost->inherited ? trace::PlacementCause::inherited : trace::PlacementCause::guard};
}

InheritedPlacement::InheritedPlacement(Device device) : frame_{device, true} {
  frame_.outer = innermost;
  innermost = &frame_;
}

GuardFrame innermost_guard() {
  return innermost == nullptr ? GuardFrame{} : GuardFrame{innermost->device, innermost->inherited};
}

RestoredGuard::RestoredGuard(const GuardFrame& guard) : frame_{guard.device, guard.inherited, innermost} {
  innermost = &frame_;
}

bool placement_is_inherited() { return innermost != nullptr && innermost->inherited; }

}  // namespace ferry::placement
