// RuntimeCore: what a Runtime owns. Tensors hold it alive through their storages.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <ferry/random.h>
#include <ferry/runtime.h>
#include "placement/placement_file.h"
#include "profiler/recorder.h"
#include "src/device/driver.h"
#include "src/device/ordering_checker.h"
#include "src/memory/allocator.h"
#include "src/memory/host_allocator.h"
#include "src/memory/pinned_pool.h"
#include "src/memory/staging_ring.h"
#include "src/ops/op_schema.h"
#include "src/runtime/builtin_backends.h"
#include "src/tensor/storage.h"

namespace ferry {

class Budget;
class CachingAllocator;

// One device: its driver, allocators, streams and kernels.
struct DeviceContext {
  Device device;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Allocator> allocator;
  std::vector<Kernel> kernels;  // by op slot; null: the backend has none

  // GPUs only.
  CachingAllocator* device_memory = nullptr;  // `allocator`, which can keep a budget
  std::unique_ptr<PinnedPool> pinned;
  std::unique_ptr<StagingRing> staging;
  StreamId compute{0}, host_to_device{0}, device_to_host{0};

  // Events for copies in flight, reused.
  EventId take_event();
  void give_back(EventId event) noexcept;

  ~DeviceContext();

 private:
  std::mutex events_mutex_;
  std::vector<EventId> free_events_, all_events_;
};

class RuntimeCore final : public StorageOwner, public std::enable_shared_from_this<RuntimeCore> {
 public:
  // Throws: as Runtime's constructor.
  RuntimeCore(RuntimeOptions options, const DriverDecorator& decorate, HostAllocatorOptions host_memory = {});
  ~RuntimeCore() override;

  const RuntimeOptions& options() const { return options_; }
  std::span<const std::unique_ptr<DeviceContext>> devices() const { return devices_; }
  // Throws: InvalidArgument for a device this runtime does not have.
  DeviceContext& context(Device device) {
    const std::size_t position = device.is_cpu() ? 0 : static_cast<std::size_t>(device.index) + 1;
    if (position >= devices_.size() || device.index < 0 || (device.is_cpu() && device.index != 0)) [[unlikely]]
      throw_no_device(device);
    return *devices_[position];
  }
  DeviceContext& cpu() { return *devices_.front(); }
  Device default_device() const { return default_device_; }
  int gpu_count() const { return static_cast<int>(devices_.size()) - 1; }
  // For messages: "the runtime has cpu, sim:rtx2080ti".
  std::string device_names() const;
  Clock& clock() { return cpu().driver->clock(); }
  OrderingChecker* checker() { return checker_.get(); }
  const placement::PlacementRules& placement_rules() const { return placement_rules_; }
  bool logs_copies() const { return logs_copies_; }

  // Null: not recording.
  profiler::Recorder* recorder() const { return recorder_.load(std::memory_order_acquire); }
  // Starts (or with null stops) recording. Throws: InvalidArgument when a recorder is set already.
  void set_recorder(profiler::Recorder* recorder);

  // Null: no memory budget.
  Budget* budget() const { return budget_.load(std::memory_order_acquire); }
  // From now on it is asked. It lives as long as the runtime.
  Budget& adopt_budget(std::unique_ptr<Budget> budget);
  // It is not asked any more.
  void drop_budget() noexcept;

  void retire(Replica& replica) noexcept override;

  std::uint64_t next_number() { return number_.fetch_add(1, std::memory_order_relaxed); }
  void seed(std::uint64_t value);
  RandomState random_state();
  void set_random_state(RandomState state);
  // {seed, first of `count` positions}.
  std::pair<std::uint64_t, std::uint64_t> draw_random(std::uint64_t count);

  // True the first time it is asked for this pair.
  bool first_fallback(std::string_view op, Device device);
  void synchronize();
  // Waits for all work; what it raises is printed, for there is nobody left to catch it. The first call also prints
  // which rules of the placement file applied to nothing.
  void finish() noexcept;

 private:
  [[noreturn]] void throw_no_device(Device device) const;
  void observe_work();

  RuntimeOptions options_;
  std::shared_ptr<OrderingChecker> checker_;
  std::vector<std::unique_ptr<DeviceContext>> devices_;
  Device default_device_;
  placement::PlacementRules placement_rules_;
  bool logs_copies_ = false;
  std::atomic<bool> finished_{false};
  std::atomic<profiler::Recorder*> recorder_{nullptr};
  std::atomic<Budget*> budget_{nullptr};
  std::vector<std::unique_ptr<Budget>> budgets_;
  std::unique_ptr<WorkObserver> observers_;  // recorder and budget
  std::atomic<std::uint64_t> number_{0};
  std::mutex mutex_;  // guards the following
  RandomState random_;
  std::set<std::pair<std::string, Device>> fallbacks_;
};

// The calling thread's runtime; the process's default, made now if need be, without one.
const std::shared_ptr<RuntimeCore>& current_core();

}  // namespace ferry
