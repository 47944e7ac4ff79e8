#include "src/backends/sim/sim_driver.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "src/backends/sim/arena.h"
#include "src/backends/sim/pinned_memory.h"
#include "src/backends/sim/timeline.h"
#include "src/backends/sim/work_checks.h"
#include "src/backends/sim/work_queue.h"
#include "src/base/check.h"

namespace ferry {
namespace sim {
namespace {

// Larger pageable sources are not worth a second copy in host memory: queued work is carried out first instead.
constexpr Bytes kMaxStaged = kMiB * 16;

struct Event {
  bool alive = false;
  bool recorded = false;
  Nanoseconds time{};
  Position position;
};

struct Stream {
  std::string name;
  bool alive = true;
};

trace::Engine engine_of(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
      return trace::Engine::host_to_device;
    case CopyDirection::device_to_host:
      return trace::Engine::device_to_host;
    default:
      return trace::Engine::compute;
  }
}

class SimDriver final : public Driver {
 public:
  explicit SimDriver(SimOptions options);
  ~SimDriver() override;

  const DriverInfo& info() const override { return info_; }
  Clock& clock() override { return *options_.clock; }
  std::span<const KernelEntry> kernels() const override { return options_.kernels; }
  bool needs_cost() const override { return true; }

  void* allocate(Bytes size) override;
  void free(void* pointer, Bytes size) noexcept override;
  void* allocate_pinned(Bytes size) override;
  void free_pinned(void* pointer, Bytes size) noexcept override;
  void note_allocated(void* pointer, Bytes size, StreamId stream) override;
  void note_freed(void* pointer, Bytes size, StreamId stream) override;

  StreamId create_stream(std::string_view name) override;
  void destroy_stream(StreamId stream) noexcept override;
  EventId create_event() override;
  void destroy_event(EventId event) noexcept override;
  void record_event(EventId event, StreamId stream) override;
  void wait_event(StreamId stream, EventId event) override;
  bool query_event(EventId event) override;
  void synchronize_event(EventId event) override;
  void synchronize_stream(StreamId stream) override;
  void synchronize() override;

  void copy(const CopyRequest& request, StreamId stream) override;
  void launch(const KernelLaunch& launch, StreamId stream) override;
  void set_work_observer(WorkObserver* observer) override;

 private:
  Event& event(EventId id);
  void require_stream(StreamId id) const;
  void queue_copy(const CopyRequest& request, StreamId stream);
  KernelWork own(const KernelLaunch& launch) const;
  bool on_device(const TensorView& view) const { return arena_.contains(view.data); }

  // The host waits for all work on `stream` so far: in time, for values, and in the checker's order.
  void wait_for(StreamId stream);
  void wait_for_all();
  void throw_kept_error();
  void report(trace::WorkKind kind, trace::Engine engine, StreamId stream, std::uint64_t correlation,
              Interval interval);

  const SimOptions options_;
  const DriverInfo info_;
  OrderingChecker* const checker_;
  const int checker_driver_;

  std::mutex mutex_;  // everything below
  Arena arena_;
  WorkChecks checks_;
  PinnedMemory pinned_;
  Timeline timeline_;
  WorkQueue queue_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<std::int32_t> free_events_;
  WorkObserver* observer_ = nullptr;
};

DriverInfo describe(const SimOptions& options) {
  return {.name = "sim:" + options.spec.name,
          .description = options.spec.description + ", simulated",
          .capacity = options.capacity,
          .simulated = true,
          .computes_values = options.values,
          .link = {.out_bytes_per_second = options.spec.device_to_host.bytes_per_second,
                   .in_bytes_per_second = options.spec.host_to_device.bytes_per_second,
                   .latency = options.spec.device_to_host.latency}};
}

int register_driver(const SimOptions& options, const std::string& name) {
  if (options.checker == nullptr) return -1;
  const bool first = options.device.index == 0;
  return options.checker->add_driver(first ? name : fmt::format("{}({})", name, to_string(options.device)));
}

SimDriver::SimDriver(SimOptions options)
    : options_(std::move(options)),
      info_(describe(options_)),
      checker_(options_.checker.get()),
      checker_driver_(register_driver(options_, info_.name)),
      arena_(options_.capacity, options_.values),
      checks_(arena_, info_.name, checker_, checker_driver_),
      timeline_(*options_.clock),
      queue_(options_.order) {
  create_stream("compute");
}

SimDriver::~SimDriver() {
  queue_.carry_out_all();
  if (checker_ == nullptr) return;
  checker_->host_waited_driver(checker_driver_);
  checker_->forgotten(arena_.base(), arena_.capacity().count);
}

void* SimDriver::allocate(Bytes size) {
  const std::lock_guard lock(mutex_);
  options_.clock->advance(options_.spec.allocation_cost);
  void* const pointer = arena_.allocate(size);
  if (pointer && checker_) checker_->forgotten(pointer, size.count);
  return pointer;
}

void SimDriver::free(void* pointer, Bytes size) noexcept {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  wait_for_all();
  if (!arena_.free(pointer)) {
    queue_.keep_error(std::make_exception_ptr(
        DeviceError(fmt::format("{}: freed {}, which is no live allocation", info_.name, pointer), kInvalidValue)));
  } else if (checker_) {
    checker_->freed(checker_driver_, pointer, size.count);
  }
}

void* SimDriver::allocate_pinned(Bytes size) {
  const std::lock_guard lock(mutex_);
  options_.clock->advance(options_.spec.allocation_cost);
  void* const pointer = pinned_.allocate(size);
  if (pointer && checker_) checker_->forgotten(pointer, size.count);
  return pointer;
}

void SimDriver::free_pinned(void* pointer, Bytes size) noexcept {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  wait_for_all();
  if (!pinned_.free(pointer)) {
    queue_.keep_error(std::make_exception_ptr(DeviceError(
        fmt::format("{}: freed {}, which is no live pinned allocation", info_.name, pointer), kInvalidValue)));
  } else if (checker_) {
    checker_->forgotten(pointer, size.count);
  }
}

void SimDriver::note_allocated(void* pointer, Bytes size, StreamId stream) {
  if (checker_) checker_->allocated(checker_driver_, pointer, size.count, stream);
}

void SimDriver::note_freed(void* pointer, Bytes size, StreamId /*stream*/) {
  if (checker_) checker_->freed(checker_driver_, pointer, size.count);
}

StreamId SimDriver::create_stream(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const StreamId id{static_cast<std::int32_t>(streams_.size())};
  streams_.push_back({std::string(name)});
  timeline_.add_stream();
  queue_.add_stream();
  if (checker_) checker_->add_stream(checker_driver_, id, std::string(name));
  return id;
}

void SimDriver::destroy_stream(StreamId stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(stream.value);
  if (stream.value <= 0 || index >= streams_.size()) return;
  queue_.carry_out(queue_.end_of(stream));
  streams_[index].alive = false;
}

EventId SimDriver::create_event() {
  const std::lock_guard lock(mutex_);
  EventId id{static_cast<std::int32_t>(events_.size())};
  if (free_events_.empty()) {
    events_.emplace_back();
  } else {
    id.value = free_events_.back();
    free_events_.pop_back();
  }
  events_[static_cast<std::size_t>(id.value)] = {.alive = true, .recorded = false, .time = {}, .position = {}};
  return id;
}

void SimDriver::destroy_event(EventId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) return;
  events_[index].alive = false;  // waits already enqueued hold what they wait for
  free_events_.push_back(id.value);
}

void SimDriver::record_event(EventId id, StreamId stream) {
  const std::lock_guard lock(mutex_);
  require_stream(stream);
  Event& recorded = event(id);
  recorded.recorded = true;
  recorded.time = timeline_.end_of(stream);
  recorded.position = queue_.end_of(stream);
  if (checker_) checker_->event_recorded(checker_driver_, id, stream);
}

void SimDriver::wait_event(StreamId stream, EventId id) {
  const std::lock_guard lock(mutex_);
  require_stream(stream);
  const Event& awaited = event(id);
  if (!awaited.recorded) return;
  timeline_.delay(stream, awaited.time);
  if (!queue_.passed(awaited.position)) queue_.push(stream, EventWait{awaited.position});
  if (checker_) checker_->event_waited(checker_driver_, stream, id);
}

bool SimDriver::query_event(EventId id) {
  const std::lock_guard lock(mutex_);
  const Event& queried = event(id);
  if (!queried.recorded) return true;
  if (queried.time > options_.clock->now()) return false;
  queue_.carry_out(queried.position);
  if (checker_) checker_->host_waited_event(checker_driver_, id);
  return true;
}

void SimDriver::synchronize_event(EventId id) {
  const std::lock_guard lock(mutex_);
  const Event& awaited = event(id);
  if (!awaited.recorded) return;
  options_.clock->advance_to(awaited.time);
  queue_.carry_out(awaited.position);
  if (checker_) checker_->host_waited_event(checker_driver_, id);
  throw_kept_error();
}

void SimDriver::synchronize_stream(StreamId stream) {
  const std::lock_guard lock(mutex_);
  require_stream(stream);
  wait_for(stream);
  throw_kept_error();
}

void SimDriver::synchronize() {
  const std::lock_guard lock(mutex_);
  wait_for_all();
  throw_kept_error();
}

void SimDriver::wait_for(StreamId stream) {
  options_.clock->advance_to(timeline_.end_of(stream));
  queue_.carry_out(queue_.end_of(stream));
  if (checker_) checker_->host_waited_stream(checker_driver_, stream);
}

void SimDriver::wait_for_all() {
  options_.clock->advance_to(timeline_.end_of_all());
  queue_.carry_out_all();
  if (checker_) checker_->host_waited_driver(checker_driver_);
}

void SimDriver::throw_kept_error() {
  if (const std::exception_ptr error = queue_.take_error()) std::rethrow_exception(error);
}

void SimDriver::copy(const CopyRequest& request, StreamId stream) {
  if (request.size.count == 0) return;
  const std::lock_guard lock(mutex_);
  const std::string_view label = request.label.empty() ? "copy" : request.label;
  require_stream(stream);
  checks_.check(request, label, stream);

  const bool pageable = request.host_memory == HostMemory::pageable;
  const bool synchronous = pageable && request.direction == CopyDirection::device_to_host;
  const DeviceSpec& spec = options_.spec;
  Nanoseconds duration = spec.copy_duration(request.size, request.direction, request.host_memory);
  if (pageable && request.direction == CopyDirection::host_to_device) {
    const Nanoseconds transfer = spec.copy_duration(request.size, request.direction, HostMemory::pinned);
    options_.clock->advance(duration - transfer);  // the host copies into staging, then the link takes over
    duration = transfer;
  }
  const trace::Engine engine = engine_of(request.direction);
  report(trace::WorkKind::copy, engine, stream, request.correlation, timeline_.enqueue(stream, engine, duration));
  queue_copy(request, stream);
  if (synchronous) {
    wait_for(stream);
    throw_kept_error();
  }
}

void SimDriver::queue_copy(const CopyRequest& request, StreamId stream) {
  if (!options_.values) {
    if (request.direction == CopyDirection::device_to_host) pinned_.clear(request.destination, request.size);
    return;
  }
  const auto size = static_cast<std::size_t>(request.size.count);
  CopyWork work{request.destination, request.source, size, nullptr};
  if (request.direction == CopyDirection::host_to_device && request.host_memory == HostMemory::pageable) {
    if (request.size > kMaxStaged) {
      queue_.carry_out(queue_.end_of(stream));
      std::memcpy(request.destination, request.source, size);
      return;
    }
    work.staging = std::make_unique_for_overwrite<std::byte[]>(size);
    std::memcpy(work.staging.get(), request.source, size);
  }
  queue_.push(stream, std::move(work));
}

void SimDriver::launch(const KernelLaunch& launch, StreamId stream) {
  const std::lock_guard lock(mutex_);
  FERRY_CHECK(launch.kernel != nullptr, InvalidArgument, "{}: no kernel given for {}", info_.name, launch.context.op);
  require_stream(stream);
  checks_.check(launch.context, stream);

  options_.clock->advance(options_.spec.launch_cost);
  const Interval interval = timeline_.enqueue(stream, trace::Engine::compute, options_.spec.duration(launch.cost));
  report(trace::WorkKind::kernel, trace::Engine::compute, stream, launch.correlation, interval);
  if (options_.values) queue_.push(stream, own(launch));

  // A result in host memory is there when the call returns.
  const auto& outputs = launch.context.outputs;
  const bool host_output =
      std::any_of(outputs.begin(), outputs.end(), [&](const TensorView& y) { return y.data && !on_device(y); });
  if (host_output) {
    wait_for(stream);
    throw_kept_error();
  }
}

KernelWork SimDriver::own(const KernelLaunch& launch) const {
  const KernelContext& context = launch.context;
  KernelWork work{.kernel = launch.kernel,
                  .op = std::string(context.op),
                  .views = {},
                  .inputs = context.inputs.size(),
                  .attributes = context.attributes,
                  .host_inputs = {},
                  .where = launch.where};
  work.views.reserve(context.inputs.size() + context.outputs.size());
  work.views.assign(context.inputs.begin(), context.inputs.end());
  work.views.insert(work.views.end(), context.outputs.begin(), context.outputs.end());
  for (TensorView& view : std::span(work.views).first(work.inputs)) {
    const MemoryAccess bytes = access_of(view, false);
    if (bytes.size == 0 || on_device(view)) continue;
    const auto size = static_cast<std::size_t>(bytes.size);
    auto& owned = work.host_inputs.emplace_back(std::make_unique_for_overwrite<std::byte[]>(size));
    std::memcpy(owned.get(), bytes.pointer, size);
    view.data = owned.get() + (static_cast<const std::byte*>(view.data) - static_cast<const std::byte*>(bytes.pointer));
  }
  return work;
}

void SimDriver::set_work_observer(WorkObserver* observer) {
  const std::lock_guard lock(mutex_);
  observer_ = observer;
}

void SimDriver::report(trace::WorkKind kind, trace::Engine engine, StreamId stream, std::uint64_t correlation,
                       Interval interval) {
  if (observer_ == nullptr || correlation == 0) return;
  observer_->on_work({.correlation = correlation,
                      .kind = kind,
                      .engine = engine,
                      .device = options_.device,
                      .stream = stream.value,
                      .begin = interval.begin,
                      .end = interval.end});
}

Event& SimDriver::event(EventId id) {
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) {
    throw DeviceError(fmt::format("{}: event {} does not exist or was destroyed", info_.name, id.value),
                      kInvalidHandle);
  }
  return events_[index];
}

void SimDriver::require_stream(StreamId id) const {
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= streams_.size() || !streams_[index].alive) {
    throw DeviceError(fmt::format("{}: stream {} does not exist or was destroyed", info_.name, id.value),
                      kInvalidHandle);
  }
}

}  // namespace
}  // namespace sim

std::unique_ptr<Driver> make_sim_driver(SimOptions options) {
  FERRY_CHECK(options.clock != nullptr, InvalidArgument, "a simulated GPU needs a virtual clock");
  if (options.capacity.count == 0) options.capacity = options.spec.memory;
  FERRY_CHECK(options.capacity.count > 0, InvalidArgument, "a simulated GPU needs memory; its capacity is {}",
              to_string(options.capacity));
  return std::make_unique<sim::SimDriver>(std::move(options));
}

}  // namespace ferry
