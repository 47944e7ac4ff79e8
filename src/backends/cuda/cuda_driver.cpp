#include "src/backends/cuda/cuda_driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mutex>
#include <set>
#include <utility>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/faults.h"
#include "src/backends/cuda/handles.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/launch_scope.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/link_probe.h"
#include "src/backends/cuda/work_log.h"
#include "src/base/check.h"
#include "src/device/activity_source.h"
#include "src/device/peer_copies.h"
#include "src/device/virtual_clock.h"

namespace ferry::cuda_backend {
namespace {

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

bool has_several_devices() {
  int count = 0;
  FERRY_CUDA(cudaGetDeviceCount(&count));
  return count > 1;
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

class CudaDriver final : public Driver, public ActivitySource, public PeerCopies {
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

  void use_activities(bool on) override;
  std::optional<CopyActivity> copy_activity() override;

  bool reaches(const Driver& other) const override;
  void wait_for(StreamId stream, Driver& other, StreamId of_other) override;

 private:
  // The runtime's device is each thread's own.
  void use_device() const { FERRY_CUDA(cudaSetDevice(index_)); }
  void enqueue_copy(const CopyRequest& request, cudaStream_t on);
  // Direct access to the other device's memory, where the machine has it: without it copies go through host memory.
  void reach(int other);
  WorkLog* log_of(std::uint64_t correlation) { return observer_ != nullptr && correlation != 0 ? log_ : nullptr; }
  // Errors of calls that may not throw are thrown by the next wait.
  void keep_error(cudaError_t code, const char* call,
                  const std::source_location& where = std::source_location::current()) noexcept;
  void throw_deferred();

  const int index_;
  const Device as_;
  const bool has_peers_;
  const DriverInfo info_;
  RealClock clock_;
  Faults faults_;
  Handles handles_;

  std::mutex mutex_;  // everything below but what launch_mutex_ guards
  std::set<int> reached_;
  std::string kept_error_;
  int kept_code_ = 0;

  std::mutex launch_mutex_;  // workspaces, libraries, the log; taken before mutex_
  Libraries libraries_;
  WorkObserver* observer_ = nullptr;
  bool wants_activities_ = false;
  std::unique_ptr<WorkLog> event_log_, activity_log_;
  WorkLog* log_ = nullptr;  // one of them
};

CudaDriver::CudaDriver(int index, Device as)
    : index_(index), as_(as), has_peers_(has_several_devices()), info_(describe_device(index)), handles_(info_.name) {
  create_stream("compute");
}

CudaDriver::~CudaDriver() {
  cudaSetDevice(index_);
  cudaDeviceSynchronize();
  handles_.clear();
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
  return handles_.make_stream();
}

void CudaDriver::destroy_stream(StreamId id) noexcept {
  const std::lock_guard launching(launch_mutex_);
  keep_error(cudaSetDevice(index_), "cudaSetDevice(index_)");
  keep_error(handles_.destroy_stream(id), "cudaStreamDestroy(stream)");
}

EventId CudaDriver::create_event() {
  use_device();
  return handles_.make_event();
}

void CudaDriver::destroy_event(EventId id) noexcept { handles_.destroy_event(id); }

void CudaDriver::record_event(EventId id, StreamId stream) {
  use_device();
  const cudaStream_t on = handles_.stream(stream);
  FERRY_CUDA(cudaEventRecord(handles_.event(id).handle, on));
  handles_.note_recorded(id);
}

void CudaDriver::wait_event(StreamId stream, EventId id) {
  const Handles::Event event = handles_.event(id);
  const cudaStream_t on = handles_.stream(stream);
  if (!event.recorded) return;
  use_device();
  FERRY_CUDA(cudaStreamWaitEvent(on, event.handle, cudaEventWaitDefault));
}

bool CudaDriver::query_event(EventId id) {
  const Handles::Event event = handles_.event(id);
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
  const Handles::Event event = handles_.event(id);
  if (!event.recorded) return;
  use_device();
  FERRY_CUDA(cudaEventSynchronize(event.handle));
  throw_deferred();
}

void CudaDriver::synchronize_stream(StreamId stream) {
  const cudaStream_t on = handles_.stream(stream);
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
  const cudaStream_t on = handles_.stream(stream);
  use_device();
  {
    const std::lock_guard lock(launch_mutex_);
    LoggedWork work(log_of(request.correlation), on,
                    {.correlation = request.correlation,
                     .kind = trace::WorkKind::copy,
                     .engine = engine_of(request.direction),
                     .stream = stream});
    enqueue_copy(request, on);
    work.end();
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
  const cudaStream_t on = handles_.stream(stream);
  use_device();
  const std::lock_guard lock(launch_mutex_);
  LoggedWork work(log_of(launch.correlation), on, {.correlation = launch.correlation, .stream = stream});
  try {
    const LaunchScope scope(on, handles_.workspace(stream), libraries_, faults_, launch.context.op, launch.where);
    launch.kernel({.op = launch.context.op,
                   .inputs = launch.context.inputs,
                   .outputs = launch.context.outputs,
                   .attributes = launch.context.attributes,
                   .stream = on});
  } catch (Error& error) {
    error.locate(launch.context.op, launch.where);
    throw;
  }
  work.end();
}

void CudaDriver::enqueue_copy(const CopyRequest& request, cudaStream_t on) {
  const auto size = static_cast<std::size_t>(request.size.count);
  if (request.direction == CopyDirection::device_to_device && has_peers_) {
    cudaPointerAttributes to{}, from{};
    FERRY_CUDA(cudaPointerGetAttributes(&to, request.destination));
    FERRY_CUDA(cudaPointerGetAttributes(&from, request.source));
    if (to.device != from.device) {
      reach(to.device == index_ ? from.device : to.device);
      FERRY_CUDA(cudaMemcpyPeerAsync(request.destination, to.device, request.source, from.device, size, on));
      return;
    }
  }
  FERRY_CUDA(cudaMemcpyAsync(request.destination, request.source, size, kind_of(request.direction), on));
}

void CudaDriver::reach(int other) {
  const std::lock_guard lock(mutex_);
  if (!reached_.insert(other).second) return;
  int possible = 0;
  FERRY_CUDA(cudaDeviceCanAccessPeer(&possible, index_, other));
  if (possible == 0) return;
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check(code, "cudaDeviceEnablePeerAccess(other, 0)");
}

bool CudaDriver::reaches(const Driver& other) const { return dynamic_cast<const CudaDriver*>(&other) != nullptr; }

void CudaDriver::wait_for(StreamId stream, Driver& other, StreamId of_other) {
  auto& peer = dynamic_cast<CudaDriver&>(other);
  const cudaStream_t on = handles_.stream(stream);
  const EventId event = peer.create_event();
  try {
    peer.record_event(event, of_other);
    use_device();
    FERRY_CUDA(cudaStreamWaitEvent(on, peer.handles_.event(event).handle, cudaEventWaitDefault));
  } catch (...) {
    peer.destroy_event(event);
    throw;
  }
  peer.destroy_event(event);
}

void CudaDriver::set_work_observer(WorkObserver* observer) {
  use_device();
  const std::lock_guard lock(launch_mutex_);
  if (WorkLog* const former = std::exchange(log_, nullptr); former != nullptr && observer_ != nullptr) {
    observer_ = nullptr;
    try {
      former->set_observer(nullptr);
    } catch (const DeviceError& error) {
      // Who ends recording need not be able to throw. The log may hold what never ends.
      keep_error(static_cast<cudaError_t>(error.code()), "reading the times of work");
      (former == event_log_.get() ? event_log_ : activity_log_).reset();
    }
  }
  if (observer == nullptr) return;
  if (wants_activities_ && activity_log_ == nullptr) activity_log_ = make_activity_log(as_, index_, clock_);
  if (event_log_ == nullptr) event_log_ = make_event_log(as_, clock_);
  log_ = wants_activities_ && activity_log_ != nullptr ? activity_log_.get() : event_log_.get();
  log_->set_observer(observer);
  observer_ = observer;
}

void CudaDriver::flush_work_records() {
  use_device();
  const std::lock_guard lock(launch_mutex_);
  if (observer_ != nullptr) log_->deliver(true);
}

void CudaDriver::use_activities(bool on) {
  const std::lock_guard lock(launch_mutex_);
  wants_activities_ = on;
}

std::optional<CopyActivity> CudaDriver::copy_activity() {
  const std::lock_guard lock(launch_mutex_);
  return log_ == nullptr ? std::nullopt : log_->copy_activity();
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
