// A driver whose memory is the host's and whose streams run nothing: tests enqueue numbered work, decide when it is
// done, and ask whether one piece of work is ordered before another. Orders are vector clocks: what each stream, event
// and the host know of every stream. One host; not thread-safe unless `threads` guards it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/device/virtual_clock.h"

namespace ferry::testing {

class FakeDriver final : public Driver {
 public:
  using Order = std::vector<std::int64_t>;  // per stream: work up to this number is before

  explicit FakeDriver(Bytes capacity = kGiB * 64, bool computes_values = true) {
    info_ = {"fake", "a driver for tests", capacity, true, computes_values};
    create_stream("compute");
  }
  ~FakeDriver() override {
    for (const auto& [pointer, size] : device) std::free(pointer);
    for (const auto& [pointer, size] : pinned) std::free(pointer);
  }

  // Work of a stream, by number; it comes after all that the stream and the host know.
  struct Work {
    StreamId stream;
    std::int64_t number;
  };
  Work enqueue(StreamId stream) {
    const std::lock_guard lock(mutex_);
    Order& order = streams_[index(stream)].order;
    merge(order, host_);
    const std::int64_t number = ++order[index(stream)];
    streams_[index(stream)].work.push_back(order);
    return {stream, number};
  }
  // The next work of the stream is done, if all before it is.
  void advance(StreamId stream) {
    const std::lock_guard lock(mutex_);
    Stream& of = streams_[index(stream)];
    if (of.done == static_cast<std::int64_t>(of.work.size())) return;
    const Order& next = of.work[static_cast<std::size_t>(of.done)];
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (i != index(stream) && streams_[i].done < next[i]) return;
    }
    ++of.done;
  }
  // Work enqueued next on `stream` comes after `work`.
  bool ordered(const Work& work, StreamId stream) {
    const std::lock_guard lock(mutex_);
    Order order = streams_[index(stream)].order;
    merge(order, host_);
    return order[index(work.stream)] >= work.number;
  }
  // What waits for the event's last record comes after `work`.
  bool follows(EventId event, const Work& work) {
    const std::lock_guard lock(mutex_);
    const Order& order = orders_[index(event)];
    return index(work.stream) < order.size() && order[index(work.stream)] >= work.number;
  }
  // The host knows that `work` is done.
  bool host_ordered(const Work& work) {
    const std::lock_guard lock(mutex_);
    merge(host_, Order(streams_.size()));
    return host_[index(work.stream)] >= work.number;
  }

  // Live memory, and the allocation calls, device or pinned, that fail: `failures` of them from number `fail_at`.
  std::map<void*, Bytes> device, pinned;
  std::int64_t calls = 0, fail_at = -1, failures = 1;
  std::int64_t events = 0;
  bool fail_records = false;
  std::int64_t noted = 0;
  // Copies within device memory.
  struct Move {
    const std::byte *from, *to;
    Bytes size;
    Work work;
  };
  std::vector<Move> moves;

  const DriverInfo& info() const override { return info_; }
  Clock& clock() override { return clock_; }
  std::span<const KernelEntry> kernels() const override { return {}; }
  bool needs_cost() const override { return false; }

  void* allocate(Bytes size) override { return obtain(device, size); }
  void free(void* pointer, Bytes size) noexcept override {
    finish_all();
    give_back(device, pointer, size);
  }
  void* allocate_pinned(Bytes size) override { return obtain(pinned, size); }
  void free_pinned(void* pointer, Bytes size) noexcept override { give_back(pinned, pointer, size); }
  void note_allocated(void* /*pointer*/, Bytes size, StreamId /*stream*/) override { count_note(size.count); }
  void note_freed(void* /*pointer*/, Bytes size, StreamId /*stream*/) override { count_note(-size.count); }

  StreamId create_stream(std::string_view /*name*/) override {
    streams_.emplace_back();
    for (Stream& stream : streams_) stream.order.resize(streams_.size());
    return {static_cast<std::int32_t>(streams_.size()) - 1};
  }
  void destroy_stream(StreamId /*stream*/) noexcept override {}
  EventId create_event() override {
    const std::lock_guard lock(mutex_);
    ++events;
    orders_.emplace_back();
    return {static_cast<std::int32_t>(orders_.size()) - 1};
  }
  void destroy_event(EventId /*event*/) noexcept override { --events; }
  void record_event(EventId event, StreamId stream) override {
    const std::lock_guard lock(mutex_);
    if (fail_records) throw DeviceError("record failed", 1);
    orders_[index(event)] = streams_[index(stream)].order;
    merge(orders_[index(event)], host_);
  }
  void wait_event(StreamId stream, EventId event) override {
    const std::lock_guard lock(mutex_);
    merge(streams_[index(stream)].order, orders_[index(event)]);
  }
  bool query_event(EventId event) override {
    const std::lock_guard lock(mutex_);
    const Order& order = orders_[index(event)];
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (streams_[i].done < order[i]) return false;
    }
    merge(host_, order);
    return true;
  }
  void synchronize_event(EventId event) override {
    const std::lock_guard lock(mutex_);
    const Order& order = orders_[index(event)];
    for (std::size_t i = 0; i < order.size(); ++i) streams_[i].done = std::max(streams_[i].done, order[i]);
    merge(host_, order);
  }
  void synchronize_stream(StreamId stream) override {
    const EventId event = create_event();
    record_event(event, stream);
    synchronize_event(event);
    destroy_event(event);
  }
  void synchronize() override { finish_all(); }
  void copy(const CopyRequest& request, StreamId stream) override {
    const Work work = enqueue(stream);
    const std::lock_guard lock(mutex_);
    if (request.direction == CopyDirection::device_to_device)
      moves.push_back({static_cast<const std::byte*>(request.source),
                       static_cast<const std::byte*>(request.destination), request.size, work});
  }
  void launch(const KernelLaunch& /*launch*/, StreamId stream) override { enqueue(stream); }
  void set_work_observer(WorkObserver* /*observer*/) override {}

  Bytes reserved() const { return sum(device); }
  Bytes reserved_pinned() const { return sum(pinned); }

 private:
  struct Stream {
    Order order;              // what its next work comes after
    std::vector<Order> work;  // by number - 1
    std::int64_t done = 0;
  };

  template <typename Id>
  static std::size_t index(Id id) {
    return static_cast<std::size_t>(id.value);
  }
  static void merge(Order& into, const Order& other) {
    if (into.size() < other.size()) into.resize(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
  }
  static Bytes sum(const std::map<void*, Bytes>& memory) {
    Bytes total;
    for (const auto& [pointer, size] : memory) total += size;
    return total;
  }
  void* obtain(std::map<void*, Bytes>& memory, Bytes size) {
    const std::lock_guard lock(mutex_);
    ++calls;
    if ((calls >= fail_at && calls < fail_at + failures) || sum(memory) + size > info_.capacity) return nullptr;
    void* pointer = std::aligned_alloc(512, static_cast<std::size_t>((size.count + 511) / 512 * 512));
    memory.emplace(pointer, size);
    return pointer;
  }
  void give_back(std::map<void*, Bytes>& memory, void* pointer, Bytes size) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = memory.find(pointer);
    if (found == memory.end() || found->second != size) std::abort();  // freed twice, or with another size
    memory.erase(found);
    std::free(pointer);
  }
  void finish_all() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].done = static_cast<std::int64_t>(streams_[i].work.size());
      merge(host_, streams_[i].order);
    }
  }
  void count_note(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    noted += bytes;
  }

  DriverInfo info_;
  RealClock clock_;
  std::mutex mutex_;
  std::vector<Stream> streams_;
  std::vector<Order> orders_;  // of events
  Order host_;
};

}  // namespace ferry::testing
