// The whole seam to a device: memory, pinned host memory, streams, events, copies, launches and a clock. Everything
// above it (allocators, residency, profiler, runtime) is written once against this interface.
//
// Semantics are CUDA's. Work enqueued on one stream runs in order; work on two streams is unordered unless an event
// orders it. A copy from or to pageable host memory may block the host (see copy).
//
// Thread-safety: every method may be called from any thread.
// Errors: allocation returns null when there is no memory. Everything else throws DeviceError. An error in queued
// work (a kernel that finds an index out of range) is thrown by the next call that waits for that work, once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include <ferry/device.h>
#include <ferry/units.h>
#include "src/device/kernel.h"
#include "src/trace/trace.h"

namespace ferry {

// Host time as programs on this device see it. Real for cpu and cuda, virtual where a GPU is simulated.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since the clock was made, of the calling thread.
  virtual Nanoseconds now() const = 0;
  virtual bool is_virtual() const = 0;
};

// Handles are small integers, valid for the driver that made them. Stream 0 is the device's compute stream and always
// exists.
struct StreamId {
  std::int32_t value = 0;
  constexpr auto operator<=>(const StreamId&) const = default;
};
struct EventId {
  std::int32_t value = -1;
  constexpr auto operator<=>(const EventId&) const = default;
};

enum class CopyDirection : std::uint8_t { host_to_device, device_to_host, device_to_device, host_to_host };
enum class HostMemory : std::uint8_t { pageable, pinned };

struct CopyRequest {
  void* destination;
  const void* source;
  Bytes size;
  CopyDirection direction;
  HostMemory host_memory = HostMemory::pinned;
  std::string_view label;         // for the ordering checker: what is copied; a string that outlives the driver
  std::uint64_t correlation = 0;  // joins the work record to the recorder's copy; 0: not recorded
};

struct KernelLaunch {
  Kernel kernel;
  KernelContext context;       // valid during the call; a driver that queues copies what it needs
  Cost cost;                   // filled only when the driver's needs_cost() is true
  std::source_location where;  // the user's line, for errors found when the work runs
  std::uint64_t correlation = 0;
};

struct DriverInfo {
  std::string name;         // "sim:rtx2080ti", "cpu", "cuda:0"
  std::string description;  // "NVIDIA GeForce RTX 2080 Ti, simulated"
  Bytes capacity;           // of device memory
  bool simulated = false;
  bool computes_values = true;  // false in timing-only mode: device memory has no contents
  // Copies between pinned host memory and the device; 0: not known, or none.
  struct Link {
    double out_bytes_per_second = 0, in_bytes_per_second = 0;  // device to host, host to device
    Nanoseconds latency{};                                     // of each copy
  } link{};
};

// Receives what ran when, after the fact. Called from the thread that enqueued or flushed.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  virtual void on_work(const trace::WorkRecord& record) = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DriverInfo& info() const = 0;
  virtual Clock& clock() = 0;
  // The kernels this backend has; ops without one run on the CPU.
  virtual std::span<const KernelEntry> kernels() const = 0;
  virtual bool needs_cost() const = 0;

  // Device memory, 512-byte aligned. Null when the device has no such block left. Freeing waits for the device's work
  // as cudaFree does.
  virtual void* allocate(Bytes size) = 0;
  virtual void free(void* pointer, Bytes size) noexcept = 0;
  // Page-locked host memory that asynchronous copies can use, 64-byte aligned. Null when the host has none left.
  virtual void* allocate_pinned(Bytes size) = 0;
  virtual void free_pinned(void* pointer, Bytes size) noexcept = 0;

  // Optional hints from the allocators for the ordering checker: [pointer, pointer + size) was handed to a user of
  // `stream` or given back. Use of a range between free and reuse is an error that only the checker can see.
  virtual void note_allocated(void* /*pointer*/, Bytes /*size*/, StreamId /*stream*/) {}
  virtual void note_freed(void* /*pointer*/, Bytes /*size*/, StreamId /*stream*/) {}

  virtual StreamId create_stream(std::string_view name) = 0;
  virtual void destroy_stream(StreamId stream) noexcept = 0;
  virtual EventId create_event() = 0;
  virtual void destroy_event(EventId event) noexcept = 0;
  // The event completes when the work now on `stream` has; recording again moves it.
  virtual void record_event(EventId event, StreamId stream) = 0;
  // Later work on `stream` starts after the event's last record. An event never recorded is complete.
  virtual void wait_event(StreamId stream, EventId event) = 0;
  virtual bool query_event(EventId event) = 0;
  virtual void synchronize_event(EventId event) = 0;
  virtual void synchronize_stream(StreamId stream) = 0;
  virtual void synchronize() = 0;

  // Enqueues a copy. With pinned host memory it returns at once. With pageable memory host→device returns after the
  // source was read into staging, device→host returns when the copy has ended (as cudaMemcpyAsync does).
  virtual void copy(const CopyRequest& request, StreamId stream) = 0;

  // Enqueues a kernel.
  virtual void launch(const KernelLaunch& launch, StreamId stream) = 0;

  // From now on each launch or copy with a correlation is reported; null stops it. Records of work that already ended
  // may be delivered late: flush_work_records() delivers all.
  virtual void set_work_observer(WorkObserver* observer) = 0;
  virtual void flush_work_records() {}
};

}  // namespace ferry
