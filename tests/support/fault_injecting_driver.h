// A Driver around any other that makes chosen calls fail, and counts calls and live bytes: to show that every failure
// of a device is a clean error and that nothing leaks.
//
//   auto faults = std::make_shared<Faults>();
//   FaultInjectingDriver driver(make_sim_driver(…), faults);
//   faults->fail(DriverCall::device_allocation, 3);   // the third from now returns null
//   faults->fail_any(17, Lasting::until_cleared);     // the 17th call of any kind and all after it
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "src/device/driver.h"

namespace ferry {

// The calls that can fail. Allocations fail by returning null, the others by throwing DeviceError.
enum class DriverCall : std::uint8_t {
  device_allocation,
  pinned_allocation,
  create_stream,
  create_event,
  record_event,
  wait_event,
  query_event,
  synchronize,  // of an event, a stream or all
  copy,
  launch,
};
constexpr int kDriverCallCount = 10;

// Whether only the chosen call fails, or all later ones of its kind too (so that a retry meets it again).
enum class Lasting : std::uint8_t { once, until_cleared };

// What shall fail, and what was called: shared by a test and the driver, which the test may have given away.
class Faults {
 public:
  static constexpr int kCode = 999;  // of the DeviceErrors thrown

  // The n-th call of this kind from now fails, 1 being the next. Replaces an earlier order for this kind.
  void fail(DriverCall call, std::int64_t n, Lasting lasting = Lasting::once) {
    const std::lock_guard lock(mutex_);
    counter(call).order = {n, lasting};
  }
  // The n-th call of any kind from now fails.
  void fail_any(std::int64_t n, Lasting lasting = Lasting::once) {
    const std::lock_guard lock(mutex_);
    any_.order = {n, lasting};
  }
  // Nothing fails from now on.
  void clear() {
    const std::lock_guard lock(mutex_);
    any_.order = {};
    for (Counter& each : counters_) each.order = {};
  }

  std::int64_t calls(DriverCall call) const {
    const std::lock_guard lock(mutex_);
    return counters_[static_cast<std::size_t>(call)].calls;
  }
  // Of all kinds that can fail.
  std::int64_t calls() const {
    const std::lock_guard lock(mutex_);
    return any_.calls;
  }
  // Calls that were made to fail.
  std::int64_t failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  Bytes live_device_bytes() const {
    const std::lock_guard lock(mutex_);
    return device_bytes_;
  }
  Bytes live_pinned_bytes() const {
    const std::lock_guard lock(mutex_);
    return pinned_bytes_;
  }
  std::int64_t live_streams() const {
    const std::lock_guard lock(mutex_);
    return streams_;
  }
  std::int64_t live_events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  friend class FaultInjectingDriver;

  struct Order {
    std::int64_t remaining = 0;  // 0: none
    Lasting lasting = Lasting::once;
  };
  struct Counter {
    std::int64_t calls = 0;
    Order order;

    bool fails() {
      ++calls;
      if (order.remaining == 0) return false;
      if (order.remaining > 1) return --order.remaining, false;
      if (order.lasting == Lasting::once) order = {};
      return true;
    }
  };

  Counter& counter(DriverCall call) { return counters_[static_cast<std::size_t>(call)]; }
  bool fails(DriverCall call) {
    const std::lock_guard lock(mutex_);
    const bool by_kind = counter(call).fails();
    const bool by_count = any_.fails();
    failures_ += by_kind || by_count;
    return by_kind || by_count;
  }
  void add(Bytes& bytes, Bytes size) {
    const std::lock_guard lock(mutex_);
    bytes += size;
  }
  void add(std::int64_t& count, std::int64_t change) {
    const std::lock_guard lock(mutex_);
    count += change;
  }

  mutable std::mutex mutex_;
  std::array<Counter, kDriverCallCount> counters_;
  Counter any_;
  std::int64_t failures_ = 0, streams_ = 0, events_ = 0;
  Bytes device_bytes_, pinned_bytes_;
};

class FaultInjectingDriver final : public Driver {
 public:
  FaultInjectingDriver(std::unique_ptr<Driver> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  const DriverInfo& info() const override { return inner_->info(); }
  Clock& clock() override { return inner_->clock(); }
  std::span<const KernelEntry> kernels() const override { return inner_->kernels(); }
  bool needs_cost() const override { return inner_->needs_cost(); }

  void* allocate(Bytes size) override {
    void* const pointer = faults_->fails(DriverCall::device_allocation) ? nullptr : inner_->allocate(size);
    if (pointer) faults_->add(faults_->device_bytes_, size);
    return pointer;
  }
  void free(void* pointer, Bytes size) noexcept override {
    if (pointer) faults_->add(faults_->device_bytes_, Bytes{} - size);
    inner_->free(pointer, size);
  }
  void* allocate_pinned(Bytes size) override {
    void* const pointer = faults_->fails(DriverCall::pinned_allocation) ? nullptr : inner_->allocate_pinned(size);
    if (pointer) faults_->add(faults_->pinned_bytes_, size);
    return pointer;
  }
  void free_pinned(void* pointer, Bytes size) noexcept override {
    if (pointer) faults_->add(faults_->pinned_bytes_, Bytes{} - size);
    inner_->free_pinned(pointer, size);
  }
  void note_allocated(void* pointer, Bytes size, StreamId stream) override {
    inner_->note_allocated(pointer, size, stream);
  }
  void note_freed(void* pointer, Bytes size, StreamId stream) override { inner_->note_freed(pointer, size, stream); }

  StreamId create_stream(std::string_view name) override {
    may_throw(DriverCall::create_stream, "create_stream");
    const StreamId stream = inner_->create_stream(name);
    faults_->add(faults_->streams_, 1);
    return stream;
  }
  void destroy_stream(StreamId stream) noexcept override {
    inner_->destroy_stream(stream);
    faults_->add(faults_->streams_, -1);
  }
  EventId create_event() override {
    may_throw(DriverCall::create_event, "create_event");
    const EventId event = inner_->create_event();
    faults_->add(faults_->events_, 1);
    return event;
  }
  void destroy_event(EventId event) noexcept override {
    inner_->destroy_event(event);
    faults_->add(faults_->events_, -1);
  }
  void record_event(EventId event, StreamId stream) override {
    may_throw(DriverCall::record_event, "record_event");
    inner_->record_event(event, stream);
  }
  void wait_event(StreamId stream, EventId event) override {
    may_throw(DriverCall::wait_event, "wait_event");
    inner_->wait_event(stream, event);
  }
  bool query_event(EventId event) override {
    may_throw(DriverCall::query_event, "query_event");
    return inner_->query_event(event);
  }
  void synchronize_event(EventId event) override {
    may_throw(DriverCall::synchronize, "synchronize_event");
    inner_->synchronize_event(event);
  }
  void synchronize_stream(StreamId stream) override {
    may_throw(DriverCall::synchronize, "synchronize_stream");
    inner_->synchronize_stream(stream);
  }
  void synchronize() override {
    may_throw(DriverCall::synchronize, "synchronize");
    inner_->synchronize();
  }
  void copy(const CopyRequest& request, StreamId stream) override {
    may_throw(DriverCall::copy, "copy");
    inner_->copy(request, stream);
  }
  void launch(const KernelLaunch& launch, StreamId stream) override {
    may_throw(DriverCall::launch, "launch");
    inner_->launch(launch, stream);
  }

  void set_work_observer(WorkObserver* observer) override { inner_->set_work_observer(observer); }
  void flush_work_records() override { inner_->flush_work_records(); }

 private:
  void may_throw(DriverCall call, const char* name) {
    if (faults_->fails(call)) {
      throw DeviceError("injected failure of " + std::string(name) + " on " + info().name, Faults::kCode);
    }
  }

  std::unique_ptr<Driver> inner_;
  std::shared_ptr<Faults> faults_;
};

}  // namespace ferry
