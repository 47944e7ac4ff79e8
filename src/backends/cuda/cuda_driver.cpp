#include "src/backends/cuda/cuda_driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/faults.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/launch_scope.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/link_probe.h"
#include "src/backends/cuda/work_log.h"
#include "src/backends/cuda/workspace.h"
#include "src/base/check.h"
#include "src/device/virtual_clock.h"

namespace ferry::cuda_backend {
namespace {

struct Stream {
  cudaStream_t handle = nullptr;
  bool alive = true;
  std::unique_ptr<Workspace> workspace = std::make_unique<Workspace>();
};

struct Event {
  cudaEvent_t handle = nullptr;
  bool alive = false;
  bool recorded = false;  // since it was made
};

cudaMemcpyKind kind_of(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
      return cudaMemcpyHostToDevice;
    case CopyDirection::device_to_host:
      return cudaMemcpyDeviceToHost;
    case CopyDirection::device_to_device:
      return cudaMemcpyDeviceToDevice;
    default:
      return cudaMemcpyHostToHost;
  }
}

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

DriverInfo describe_device(int index) {
  FERRY_CUDA(cudaSetDevice(index));
  cudaDeviceProp properties{};
  FERRY_CUDA(cudaGetDeviceProperties(&properties, index));
  std::size_t free = 0, total = 0;
  FERRY_CUDA(cudaMemGetInfo(&free, &total));
  return {
      .name = fmt::format("cuda:{}", index),
      .description = fmt::format("{}, compute capability {}.{}", properties.name, properties.major, properties.minor),
      .capacity = Bytes{static_cast<std::int64_t>(free)},
      .link = measure_link()};
}

class CudaDriver final : public Driver {
 public:
  CudaDriver(int index, Device as);
  ~CudaDriver() override;

  const DriverInfo& info() const override { return info_; }
  Clock& clock() override { return clock_; }
  std::span<const KernelEntry> kernels() const override { return cuda_kernels(); }
  bool needs_cost() const override { return false; }

  void* allocate(Bytes size) override;
  void free(void* pointer, Bytes size) noexcept override;
  void* allocate_pinned(Bytes size) override;
  void free_pinned(void* pointer, Bytes size) noexcept override;

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
  void flush_work_records() override;

 private:
  // The runtime's device is each thread's own.
  void use_device() const { FERRY_CUDA(cudaSetDevice(index_)); }
  cudaStream_t handle(StreamId id);
  Event handle(EventId id);
  // Errors of calls that may not throw are thrown by the next wait.
  void keep_error(cudaError_t code, const char* call,
                  const std::source_location& where = std::source_location::current()) noexcept;
  void throw_deferred();

  const int index_;
  const DriverInfo info_;
  RealClock clock_;
  Faults faults_;

  std::mutex mutex_;  // everything below but what launch_mutex_ guards
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<std::int32_t> free_events_;
  std::string kept_error_;
  int kept_code_ = 0;

  std::mutex launch_mutex_;  // workspaces, libraries, the log; taken before mutex_
  Libraries libraries_;
  WorkLog log_;
};

CudaDriver::CudaDriver(int index, Device as) : index_(index), info_(describe_device(index)), log_(as, clock_) {
  create_stream("compute");
}

CudaDriver::~CudaDriver() {
  cudaSetDevice(index_);
  cudaDeviceSynchronize();
  for (const Event& event : events_) cudaEventDestroy(event.handle);
  for (Stream& stream : streams_) {
    stream.workspace.reset();
    if (stream.alive) cudaStreamDestroy(stream.handle);
  }
  cudaGetLastError();
}

void* CudaDriver::allocate(Bytes size) {
  if (size.count == 0) return nullptr;
  use_device();
  void* pointer = nullptr;
  const cudaError_t code = cudaMalloc(&pointer, static_cast<std::size_t>(size.count));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, "cudaMalloc");
  return pointer;
}

void CudaDriver::free(void* pointer, Bytes /*size*/) noexcept {
  if (pointer == nullptr) return;
  keep_error(cudaSetDevice(index_), "cudaSetDevice(index_)");
  keep_error(cudaFree(pointer), "cudaFree(pointer)");
}

void* CudaDriver::allocate_pinned(Bytes size) {
  if (size.count == 0) return nullptr;
  use_device();
  void* pointer = nullptr;
  const cudaError_t code = cudaHostAlloc(&pointer, static_cast<std::size_t>(size.count), cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, "cudaHostAlloc");
  return pointer;
}

void CudaDriver::free_pinned(void* pointer, Bytes /*size*/) noexcept {
  if (pointer == nullptr) return;
  keep_error(cudaSetDevice(index_), "cudaSetDevice(index_)");
  keep_error(cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
  keep_error(cudaFreeHost(pointer), "cudaFreeHost(pointer)");
}

StreamId CudaDriver::create_stream(std::string_view /*name*/) {
  use_device();
  Stream stream;
  FERRY_CUDA(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
  return {static_cast<std::int32_t>(streams_.size()) - 1};
}

void CudaDriver::destroy_stream(StreamId id) noexcept {
  const std::lock_guard launching(launch_mutex_);
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value <= 0 || index >= streams_.size() || !streams_[index].alive) return;
  Stream& stream = streams_[index];
  stream.alive = false;
  cudaSetDevice(index_);
  stream.workspace.reset();
  // Work on the stream still ends.
  if (const cudaError_t code = cudaStreamDestroy(stream.handle); code != cudaSuccess && kept_code_ == 0) {
    kept_code_ = static_cast<int>(code);
    kept_error_ = describe(code, "cudaStreamDestroy(stream.handle)", std::source_location::current());
  }
}

EventId CudaDriver::create_event() {
  const std::lock_guard lock(mutex_);
  if (!free_events_.empty()) {
    const EventId id{free_events_.back()};
    free_events_.pop_back();
    Event& event = events_[static_cast<std::size_t>(id.value)];
    event.alive = true;
    event.recorded = false;
    return id;
  }
  use_device();
  Event event{.alive = true};
  FERRY_CUDA(cudaEventCreateWithFlags(&event.handle, cudaEventDisableTiming));
  events_.push_back(event);
  return {static_cast<std::int32_t>(events_.size()) - 1};
}

void CudaDriver::destroy_event(EventId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) return;
  // Waits that are enqueued hold what they wait for, so that the handle can be recorded anew.
  events_[index].alive = false;
  free_events_.push_back(id.value);
}

void CudaDriver::record_event(EventId id, StreamId stream) {
  use_device();
  const cudaStream_t on = handle(stream);
  FERRY_CUDA(cudaEventRecord(handle(id).handle, on));
  const std::lock_guard lock(mutex_);
  events_[static_cast<std::size_t>(id.value)].recorded = true;
}

void CudaDriver::wait_event(StreamId stream, EventId id) {
  const Event event = handle(id);
  const cudaStream_t on = handle(stream);
  if (!event.recorded) return;
  use_device();
  FERRY_CUDA(cudaStreamWaitEvent(on, event.handle, cudaEventWaitDefault));
}

bool CudaDriver::query_event(EventId id) {
  const Event event = handle(id);
  if (!event.recorded) return true;
  use_device();
  const cudaError_t state = cudaEventQuery(event.handle);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(state, "cudaEventQuery(event.handle)");
  return true;
}

void CudaDriver::synchronize_event(EventId id) {
  const Event event = handle(id);
  if (!event.recorded) return;
  use_device();
  FERRY_CUDA(cudaEventSynchronize(event.handle));
  throw_deferred();
}

void CudaDriver::synchronize_stream(StreamId stream) {
  const cudaStream_t on = handle(stream);
  use_device();
  FERRY_CUDA(cudaStreamSynchronize(on));
  throw_deferred();
}

void CudaDriver::synchronize() {
  use_device();
  FERRY_CUDA(cudaDeviceSynchronize());
  throw_deferred();
}

void CudaDriver::copy(const CopyRequest& request, StreamId stream) {
  if (request.size.count == 0) return;
  if (request.direction == CopyDirection::host_to_host || request.size.count < 0) {
    throw DeviceError(fmt::format("{}: {}: a GPU copies a positive number of bytes from or to its own memory",
                                  info_.name, request.label),
                      cudaErrorInvalidValue);
  }
  const cudaStream_t on = handle(stream);
  use_device();
  {
    const std::lock_guard lock(launch_mutex_);
    const bool recorded = log_.records(request.correlation);
    if (recorded) log_.begin(on);
    FERRY_CUDA(cudaMemcpyAsync(request.destination, request.source, static_cast<std::size_t>(request.size.count),
                               kind_of(request.direction), on));
    if (recorded) log_.end(on, stream, trace::WorkKind::copy, engine_of(request.direction), request.correlation);
  }
  if (request.host_memory == HostMemory::pinned || request.direction == CopyDirection::device_to_device) return;
  if (request.direction == CopyDirection::device_to_host) {
    FERRY_CUDA(cudaStreamSynchronize(on));
    return throw_deferred();
  }
  // A source that happens to be page-locked is not staged: only the copy's end lets its caller write to it.
  cudaPointerAttributes attributes{};
  FERRY_CUDA(cudaPointerGetAttributes(&attributes, request.source));
  if (attributes.type == cudaMemoryTypeHost) FERRY_CUDA(cudaStreamSynchronize(on));
}

void CudaDriver::launch(const KernelLaunch& launch, StreamId stream) {
  FERRY_CHECK(launch.kernel != nullptr, InvalidArgument, "{}: no kernel given for {}", info_.name, launch.context.op);
  const cudaStream_t on = handle(stream);
  use_device();
  const std::lock_guard lock(launch_mutex_);
  Workspace* workspace = nullptr;
  {
    const std::lock_guard streams(mutex_);
    workspace = streams_[static_cast<std::size_t>(stream.value)].workspace.get();
  }
  const bool recorded = log_.records(launch.correlation);
  if (recorded) log_.begin(on);
  try {
    const LaunchScope scope(on, *workspace, libraries_, faults_, launch.context.op, launch.where);
    launch.kernel({.op = launch.context.op,
                   .inputs = launch.context.inputs,
                   .outputs = launch.context.outputs,
                   .attributes = launch.context.attributes,
                   .stream = on});
  } catch (Error& error) {
    error.locate(launch.context.op, launch.where);
    throw;
  }
  if (recorded) log_.end(on, stream, trace::WorkKind::kernel, trace::Engine::compute, launch.correlation);
}

void CudaDriver::set_work_observer(WorkObserver* observer) {
  use_device();
  const std::lock_guard lock(launch_mutex_);
  log_.set_observer(observer);
}

void CudaDriver::flush_work_records() {
  use_device();
  const std::lock_guard lock(launch_mutex_);
  log_.deliver(true);
}

cudaStream_t CudaDriver::handle(StreamId id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= streams_.size() || !streams_[index].alive) {
    throw DeviceError(fmt::format("{}: stream {} does not exist or was destroyed", info_.name, id.value),
                      cudaErrorInvalidResourceHandle);
  }
  return streams_[index].handle;
}

Event CudaDriver::handle(EventId id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) {
    throw DeviceError(fmt::format("{}: event {} does not exist or was destroyed", info_.name, id.value),
                      cudaErrorInvalidResourceHandle);
  }
  return events_[index];
}

void CudaDriver::keep_error(cudaError_t code, const char* call, const std::source_location& where) noexcept {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  const std::lock_guard lock(mutex_);
  if (kept_code_ != 0) return;
  kept_code_ = static_cast<int>(code);
  kept_error_ = describe(code, call, where);
}

void CudaDriver::throw_deferred() {
  faults_.rethrow();
  const std::lock_guard lock(mutex_);
  if (const int code = std::exchange(kept_code_, 0); code != 0) throw DeviceError(std::move(kept_error_), code);
}

}  // namespace

std::unique_ptr<Driver> make_cuda_driver(int index, Device as) { return std::make_unique<CudaDriver>(index, as); }

int count_devices(const char** reason) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    *reason = "no NVIDIA driver is installed";
  } else if (code == cudaErrorInsufficientDriver) {
    *reason = "the NVIDIA driver is older than the CUDA runtime that the plug-in was built with";
  } else if (code == cudaSuccess || code == cudaErrorNoDevice) {
    *reason = "the NVIDIA driver finds no GPU";
  } else {
    *reason = cudaGetErrorString(code);
  }
  return 0;
}

}  // namespace ferry::cuda_backend
