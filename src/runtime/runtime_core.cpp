#include "src/runtime/runtime_core.h"

#include <cstdlib>
#include <unordered_map>

#include "src/base/check.h"
#include "src/device/activity_source.h"
#include "src/memory/caching_allocator.h"
#include "src/ops/op_list.h"
#include "src/runtime/budget.h"

namespace ferry {
namespace {

bool environment_flag(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
}

bool environment_lists(const char* name, std::string_view word) {
  const char* value = std::getenv(name);
  if (value == nullptr) return false;
  for (std::string_view rest = value; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == word) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

class TwoObservers final : public WorkObserver {
 public:
  TwoObservers(WorkObserver& a, WorkObserver& b) : a_(a), b_(b) {}
  void on_work(const trace::WorkRecord& record) override {
    a_.on_work(record);
    b_.on_work(record);
  }

 private:
  WorkObserver& a_;
  WorkObserver& b_;
};

// The backend's kernels by op slot. Throws: DeviceError for a kernel of an op that does not exist.
std::vector<Kernel> kernels_by_slot(const Driver& driver) {
  std::unordered_map<std::string_view, Kernel> by_name;
  for (const KernelEntry& entry : driver.kernels()) by_name.emplace(entry.op, entry.kernel);
  std::vector<Kernel> kernels;
  for (const ops::OpSchema* schema : ops::all_ops()) {
    const auto found = by_name.find(schema->kernel.empty() ? schema->name : schema->kernel);
    kernels.push_back(found == by_name.end() ? nullptr : found->second);
  }
  return kernels;
}

std::unique_ptr<DeviceContext> make_context(Device device, std::unique_ptr<Driver> driver,
                                            HostAllocatorOptions host_memory) {
  auto context = std::make_unique<DeviceContext>();
  context->device = device;
  context->driver = std::move(driver);
  context->kernels = kernels_by_slot(*context->driver);
  if (device.is_cpu()) {
    context->allocator = std::make_unique<HostAllocator>(*context->driver, std::move(host_memory));
    return context;
  }
  auto device_memory = std::make_unique<CachingAllocator>(*context->driver);
  context->device_memory = device_memory.get();
  context->allocator = std::move(device_memory);
  context->pinned = std::make_unique<PinnedPool>(*context->driver);
  context->staging = std::make_unique<StagingRing>(*context->driver, *context->pinned);
  context->host_to_device = context->driver->create_stream("h2d");
  context->device_to_host = context->driver->create_stream("d2h");
  return context;
}

}  // namespace

EventId DeviceContext::take_event() {
  const std::lock_guard lock(events_mutex_);
  if (!free_events_.empty()) {
    const EventId event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  free_events_.reserve(all_events_.size() + 1);
  all_events_.push_back(driver->create_event());
  return all_events_.back();
}

void DeviceContext::give_back(EventId event) noexcept {
  const std::lock_guard lock(events_mutex_);
  free_events_.push_back(event);
}

DeviceContext::~DeviceContext() {
  staging.reset();
  pinned.reset();
  allocator.reset();
  if (driver == nullptr) return;
  for (const EventId event : all_events_) driver->destroy_event(event);
  if (host_to_device.value != 0) driver->destroy_stream(host_to_device);
  if (device_to_host.value != 0) driver->destroy_stream(device_to_host);
}

RuntimeCore::RuntimeCore(RuntimeOptions options, const DriverDecorator& decorate, HostAllocatorOptions host_memory)
    : options_(std::move(options)) {
  if (options_.check_ordering || environment_flag("FERRY_CHECK_ORDER")) checker_ = std::make_shared<OrderingChecker>();
  logs_copies_ = environment_lists("FERRY_LOG", "copies");
  random_.seed = options_.seed;
  if (options_.placement_file.empty()) {
    if (const char* path = std::getenv("FERRY_PLACEMENT")) options_.placement_file = path;
  }
  if (!options_.placement_file.empty()) {
    placement_rules_ = placement::PlacementRules::load(options_.placement_file);
  }
  Backends backends = make_backends(options_, checker_);
  const auto wrapped = [&](std::unique_ptr<Driver> driver, Device device) {
    return decorate ? decorate(std::move(driver), device) : std::move(driver);
  };
  devices_.push_back(make_context(cpu::device, wrapped(std::move(backends.cpu), cpu::device), std::move(host_memory)));
  for (std::unique_ptr<Driver>& gpu : backends.gpus) {
    const Device device{DeviceType::gpu, static_cast<std::int8_t>(devices_.size() - 1)};
    devices_.push_back(make_context(device, wrapped(std::move(gpu), device), {}));
  }
  default_device_ = devices_.size() > 1 ? gpu::device : cpu::device;
  placement_rules_.require_devices(gpu_count(), device_names());
}

RuntimeCore::~RuntimeCore() {
  finish();
  if (Budget* const budget = this->budget()) {
    drop_budget();
    budget->end();
  }
}

void RuntimeCore::finish() noexcept {
  for (const auto& context : devices_) {
    try {
      context->driver->synchronize();
    } catch (const std::exception& error) {
      fmt::print(stderr, "ferry: work still queued at the end failed: {}\n", error.what());
    }
  }
  if (finished_.exchange(true)) return;
  for (const std::string& line : placement_rules_.unused()) fmt::print(stderr, "ferry: {}\n", line);
}

std::string RuntimeCore::device_names() const {
  std::string names = "the runtime has";
  for (const auto& context : devices_)
    names += fmt::format("{} {}", context->device.is_cpu() ? "" : ",", context->driver->info().name);
  return names;
}

void RuntimeCore::throw_no_device(Device device) const {
  throw InvalidArgument(fmt::format("there is no {}; {}", to_string(device), device_names()));
}

void RuntimeCore::set_recorder(profiler::Recorder* recorder) {
  profiler::Recorder* expected = nullptr;
  if (recorder != nullptr) {
    FERRY_CHECK(recorder_.compare_exchange_strong(expected, recorder), InvalidArgument,
                "Profiler: the runtime is being profiled already; stop the other Profiler first");
  } else {
    recorder_.store(nullptr, std::memory_order_release);
  }
  observe_work();
}

void RuntimeCore::observe_work() {
  Budget* const budget = this->budget();
  profiler::Recorder* const recorder = this->recorder();
  for (const auto& context : devices_) {
    const bool counts = budget != nullptr && context->device == budget->device();
    WorkObserver* observer = recorder;
    // A budget watches all the time, and is content with what costs least.
    if (auto* const source = dynamic_cast<ActivitySource*>(context->driver.get())) {
      source->use_activities(recorder != nullptr);
    }
    if (counts && recorder != nullptr) {
      auto both = std::make_unique<TwoObservers>(*recorder, *budget);
      observer = both.get();
      context->driver->set_work_observer(observer);
      observers_ = std::move(both);  // nobody tells the old one any more
    } else if (counts) {
      observer = budget;
    }
    context->driver->set_work_observer(observer);
  }
}

Budget& RuntimeCore::adopt_budget(std::unique_ptr<Budget> budget) {
  Budget& result = *budget;
  budgets_.push_back(std::move(budget));
  budget_.store(&result, std::memory_order_release);
  observe_work();
  return result;
}

void RuntimeCore::drop_budget() noexcept {
  budget_.store(nullptr, std::memory_order_release);
  observe_work();
}

void RuntimeCore::retire(Replica& replica) noexcept {
  if (replica.pending.value >= 0) {
    context(replica.event_device).give_back(replica.pending);
    replica.pending = {};
  }
  if (replica.pinned) {
    context(replica.event_device).pinned->deallocate(replica.allocation);
  } else {
    context(replica.device).allocator->deallocate(replica.allocation);
  }
  replica.allocation = {};
  replica.valid = false;
}

void RuntimeCore::seed(std::uint64_t value) { set_random_state({value, 0}); }

RandomState RuntimeCore::random_state() {
  const std::lock_guard lock(mutex_);
  return random_;
}

void RuntimeCore::set_random_state(RandomState state) {
  const std::lock_guard lock(mutex_);
  random_ = state;
}

std::pair<std::uint64_t, std::uint64_t> RuntimeCore::draw_random(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = random_.offset;
  random_.offset += count;
  return {random_.seed, offset};
}

bool RuntimeCore::first_fallback(std::string_view op, Device device) {
  const std::lock_guard lock(mutex_);
  return fallbacks_.emplace(op, device).second;
}

void RuntimeCore::synchronize() {
  for (const auto& context : devices_) context->driver->synchronize();
}

}  // namespace ferry
