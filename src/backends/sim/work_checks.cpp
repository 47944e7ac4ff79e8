#include "src/backends/sim/work_checks.h"

#include <fmt/format.h>

#include <ferry/error.h>

namespace ferry::sim {

void WorkChecks::check(const CopyRequest& request, std::string_view label, StreamId stream) {
  const CopyDirection direction = request.direction;
  if (direction == CopyDirection::host_to_host || request.size.count < 0) {
    throw DeviceError(
        fmt::format("{}: {}: a GPU copies a positive number of bytes from or to its own memory", driver_name_, label),
        kInvalidValue);
  }
  if (direction != CopyDirection::host_to_device) require_allocated(request.source, request.size, label);
  if (direction != CopyDirection::device_to_host) require_allocated(request.destination, request.size, label);
  if (checker_ == nullptr) return;

  const MemoryAccess accesses[] = {{request.source, request.size.count, false},
                                   {request.destination, request.size.count, true}};
  const std::span<const MemoryAccess> both(accesses);
  const bool staged = direction == CopyDirection::host_to_device && request.host_memory == HostMemory::pageable;
  if (staged) checker_->host_access(label, both.first(1));
  checker_->enqueued(driver_, stream, label, staged ? both.last(1) : both);
}

void WorkChecks::check(const KernelContext& context, StreamId stream) {
  for (const TensorView& view : context.inputs) require_allocated(view, context.op);
  for (const TensorView& view : context.outputs) require_allocated(view, context.op);
  if (checker_ == nullptr) return;
  const std::span<const MemoryAccess> host = accesses_of(context, false);
  if (!host.empty()) checker_->host_access(context.op, host);
  checker_->enqueued(driver_, stream, context.op, accesses_of(context, true));
}

void WorkChecks::require_allocated(const void* pointer, Bytes size, std::string_view label) const {
  if (arena_.allocated(pointer, size.count)) return;
  throw DeviceError(fmt::format("{}: {}: [{}, {} bytes) is not inside one allocation of the device", driver_name_,
                                label, pointer, size.count),
                    kInvalidValue);
}

void WorkChecks::require_allocated(const TensorView& view, std::string_view op) const {
  const MemoryAccess bytes = access_of(view, false);
  if (bytes.size == 0 || !arena_.contains(view.data) || arena_.allocated(bytes.pointer, bytes.size)) return;
  throw DeviceError(fmt::format("{}: {}: an argument of shape {} reaches outside its allocation", driver_name_, op,
                                to_string(view.shape)),
                    kIllegalAddress);
}

std::span<const MemoryAccess> WorkChecks::accesses_of(const KernelContext& context, bool device) {
  accesses_.clear();
  const auto add = [&](const TensorView& view, bool write) {
    const MemoryAccess bytes = access_of(view, write);
    if (bytes.size != 0 && arena_.contains(view.data) == device) accesses_.push_back(bytes);
  };
  for (const TensorView& view : context.inputs) add(view, false);
  for (const TensorView& view : context.outputs) add(view, true);
  return accesses_;
}

}  // namespace ferry::sim
