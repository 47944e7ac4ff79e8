// What a simulated GPU checks before it queues work: that device arguments lie inside live allocations, and, through
// the ordering checker, that what they conflict with comes before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/backends/sim/arena.h"
#include "src/device/driver.h"
#include "src/device/ordering_checker.h"

namespace ferry::sim {

// CUDA's codes for what is refused.
constexpr int kInvalidValue = 1;
constexpr int kInvalidHandle = 400;
constexpr int kIllegalAddress = 700;

// A driver's bounds and its place in the ordering checker.
//
// Thread-safety: none, the driver locks.
class WorkChecks {
 public:
  // `checker` may be null. All references outlive the object.
  WorkChecks(const Arena& arena, const std::string& driver_name, OrderingChecker* checker, int checker_driver)
      : arena_(arena), driver_name_(driver_name), checker_(checker), driver_(checker_driver) {}

  // Throws: DeviceError for memory outside the device's allocations, OrderingError.
  void check(const CopyRequest& request, std::string_view label, StreamId stream);
  void check(const KernelContext& context, StreamId stream);

 private:
  void require_allocated(const void* pointer, Bytes size, std::string_view label) const;
  void require_allocated(const TensorView& view, std::string_view op) const;
  // Collects the accesses to device memory, or those to host memory.
  std::span<const MemoryAccess> accesses_of(const KernelContext& context, bool device);

  const Arena& arena_;
  const std::string& driver_name_;
  OrderingChecker* const checker_;
  const int driver_;
  std::vector<MemoryAccess> accesses_;  // scratch
};

}  // namespace ferry::sim
