// Decides where an op runs, and keeps why.
#pragma once

#include <optional>
#include <string_view>

#include <ferry/device_guard.h>
#include "src/trace/trace.h"

namespace ferry::placement {

struct Placement {
  Device device;
  trace::PlacementCause cause = trace::PlacementCause::default_device;
};

// The innermost guard of the calling thread; the runtime's default device without one.
Placement current_placement(Device default_device);

// The calling thread's ops run on `device` in this scope, whatever guards stand around it: backward and optimizer ops
// inherit the device of their forward op or parameter.
class [[nodiscard]] InheritedPlacement {
 public:
  explicit InheritedPlacement(Device device);
  ~InheritedPlacement() { pop_guard(frame_); }
  InheritedPlacement(const InheritedPlacement&) = delete;
  InheritedPlacement& operator=(const InheritedPlacement&) = delete;

 private:
  GuardFrame frame_;
};

// The calling thread's innermost guard, cut from those around it; one of no preference without any.
GuardFrame innermost_guard();

// `guard` is the calling thread's innermost in this scope: a region that is computed again is placed as at first.
class [[nodiscard]] RestoredGuard {
 public:
  explicit RestoredGuard(const GuardFrame& guard);
  ~RestoredGuard() { pop_guard(frame_); }
  RestoredGuard(const RestoredGuard&) = delete;
  RestoredGuard& operator=(const RestoredGuard&) = delete;

 private:
  GuardFrame frame_;
};

// True while an InheritedPlacement is innermost: placement files do not apply then.
bool placement_is_inherited();

}  // namespace ferry::placement
