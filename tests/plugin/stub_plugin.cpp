// A plug-in with two devices in host memory, whose work is done when it is enqueued. The build makes variants of it:
// STUB_ABI_VERSION, the interface version it claims, and STUB_DEVICES, how many devices it finds.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "src/device/plugin.h"
#include "src/device/virtual_clock.h"

namespace ferry {
namespace {

class StubDriver final : public Driver {
 public:
  StubDriver(int index, Device as) : device_(as) {
    info_.name = "stub:" + std::to_string(index);
    info_.description = "host memory behind a plug-in";
    info_.capacity = kMiB * 64;
  }

  const DriverInfo& info() const override { return info_; }
  Clock& clock() override { return clock_; }
  std::span<const KernelEntry> kernels() const override { return {}; }
  bool needs_cost() const override { return false; }

  void* allocate(Bytes size) override {
    const std::lock_guard lock(mutex_);
    if (used_ + size > info_.capacity) return nullptr;
    used_ += size;
    return std::aligned_alloc(512, static_cast<std::size_t>((size.count + 511) / 512 * 512));
  }
  void free(void* pointer, Bytes size) noexcept override {
    const std::lock_guard lock(mutex_);
    used_ -= size;
    std::free(pointer);
  }
  void* allocate_pinned(Bytes size) override {
    return std::aligned_alloc(64, static_cast<std::size_t>((size.count + 63) / 64 * 64));
  }
  void free_pinned(void* pointer, Bytes /*size*/) noexcept override { std::free(pointer); }

  StreamId create_stream(std::string_view /*name*/) override { return {next_stream_++}; }
  void destroy_stream(StreamId /*stream*/) noexcept override {}
  EventId create_event() override { return {next_event_++}; }
  void destroy_event(EventId /*event*/) noexcept override {}
  void record_event(EventId /*event*/, StreamId /*stream*/) override {}
  void wait_event(StreamId /*stream*/, EventId /*event*/) override {}
  bool query_event(EventId /*event*/) override { return true; }
  void synchronize_event(EventId /*event*/) override { throw_kept_error(); }
  void synchronize_stream(StreamId /*stream*/) override { throw_kept_error(); }
  void synchronize() override { throw_kept_error(); }

  void copy(const CopyRequest& request, StreamId stream) override {
    const std::lock_guard lock(mutex_);
    const Nanoseconds begin = clock_.now();
    std::memmove(request.destination, request.source, static_cast<std::size_t>(request.size.count));
    report(trace::WorkKind::copy, request.correlation, stream, begin);
  }
  void launch(const KernelLaunch& launch, StreamId stream) override {
    const std::lock_guard lock(mutex_);
    const Nanoseconds begin = clock_.now();
    try {
      launch.kernel(launch.context);
    } catch (Error& error) {
      error.locate(launch.context.op, launch.where);
      error_ = std::current_exception();
    }
    report(trace::WorkKind::kernel, launch.correlation, stream, begin);
  }
  void set_work_observer(WorkObserver* observer) override { observer_ = observer; }

 private:
  void throw_kept_error() {
    const std::lock_guard lock(mutex_);
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }
  void report(trace::WorkKind kind, std::uint64_t correlation, StreamId stream, Nanoseconds begin) {
    if (observer_ == nullptr || correlation == 0) return;
    observer_->on_work({.correlation = correlation,
                        .kind = kind,
                        .device = device_,
                        .stream = stream.value,
                        .begin = begin,
                        .end = clock_.now()});
  }

  DriverInfo info_;
  Device device_;
  RealClock clock_;
  std::mutex mutex_;
  Bytes used_;
  std::exception_ptr error_;
  std::int32_t next_stream_ = 1, next_event_ = 0;
  WorkObserver* observer_ = nullptr;
};

int device_count(const char** reason) {
  if (STUB_DEVICES == 0) *reason = "the stub was built without devices";
  return STUB_DEVICES;
}

Driver* make_driver(int index, Device as) { return new StubDriver(index, as); }

}  // namespace
}  // namespace ferry

extern "C" const ferry::PluginInterface* ferry_plugin() {
  static const ferry::PluginInterface interface { STUB_ABI_VERSION, "stub", ferry::device_count, ferry::make_driver };
  return &interface;
}
