#include <ferry/runtime.h>

#include "src/runtime/budget.h"
#include "src/runtime/current.h"
#include "src/runtime/runtime_core.h"

namespace ferry {

Runtime::Runtime(RuntimeOptions options)
    : Runtime(std::make_shared<RuntimeCore>(std::move(options), DriverDecorator{})) {}

Runtime::Runtime(std::shared_ptr<RuntimeCore> core) : core_(std::move(core)) {
  begin_budget_of_environment(*core_);
  begin_runtime(core_);
}

Runtime::~Runtime() {
  end_runtime(core_);
  core_->finish();
}

std::unique_ptr<Runtime> make_runtime(RuntimeOptions options, const DriverDecorator& decorate,
                                      HostAllocatorOptions host_memory) {
  return std::make_unique<Runtime>(std::make_shared<RuntimeCore>(std::move(options), decorate, std::move(host_memory)));
}

std::vector<DeviceDescription> Runtime::devices() const {
  std::vector<DeviceDescription> result;
  for (const auto& context : core_->devices()) {
    const DriverInfo& info = context->driver->info();
    result.push_back({context->device, info.name, info.description, info.capacity, info.simulated});
  }
  return result;
}

Device Runtime::default_device() const { return core_->default_device(); }

MemoryStats Runtime::memory_stats(Device device) const {
  DeviceContext& context = core_->context(device);
  const AllocatorStats stats = context.allocator->stats();
  MemoryStats result{.allocated = stats.allocated,
                     .active = stats.active,
                     .reserved = stats.reserved,
                     .peak_allocated = stats.peak_allocated,
                     .peak_reserved = stats.peak_reserved,
                     .largest_free = stats.largest_free,
                     .capacity = context.driver->info().capacity,
                     .allocations = stats.allocations,
                     .driver_allocations = stats.driver_allocations,
                     .fragmentation = stats.fragmentation()};
  if (context.pinned != nullptr) {
    const AllocatorStats pinned = context.pinned->stats();
    result.pinned_allocated = pinned.allocated;
    result.pinned_reserved = pinned.reserved;
  }
  return result;
}

void Runtime::reset_peak_memory(Device device) { core_->context(device).allocator->reset_peaks(); }

void Runtime::empty_cache(Device device) {
  DeviceContext& context = core_->context(device);
  context.allocator->empty_cache();
  if (context.pinned != nullptr) context.pinned->empty_cache();
}

void Runtime::synchronize() { core_->synchronize(); }
Nanoseconds Runtime::now() const { return core_->clock().now(); }
bool Runtime::virtual_time() const { return core_->clock().is_virtual(); }

Bytes Runtime::live_bytes() const {
  Bytes total{};
  for (const auto& context : core_->devices()) total += context->allocator->stats().allocated;
  return total;
}

void Runtime::manual_seed(std::uint64_t seed) { core_->seed(seed); }

void synchronize() { current_core()->synchronize(); }

}  // namespace ferry
