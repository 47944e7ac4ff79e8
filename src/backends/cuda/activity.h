// Kernels and copies as CUPTI sees them, for the whole process.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/units.h>
#include "src/trace/trace.h"

namespace ferry::cuda_backend {

// A kernel or copy on a device.
struct Activity {
  std::uint64_t id = 0;  // of the piece of work that it was enqueued for; 0: of none
  std::uint32_t device = 0;
  trace::WorkKind kind = trace::WorkKind::kernel;
  bool within_device = false;  // copies: source and destination are memory of one device
  trace::Memory from = trace::Memory::device, to = trace::Memory::device;
  Bytes size{};                // copied
  Nanoseconds begin{}, end{};  // on the steady clock, since its epoch
};

// One user of CUPTI, for one device. What it numbers is told apart from what others do, so that several drivers may
// trace at once.
//
// Thread-safety: all methods may be called from any thread; push and pop belong to one thread's call of the runtime.
class ActivityTracer {
 public:
  // Nothing is traced yet. Requires: available().
  explicit ActivityTracer(int device);
  // Tracing ends, if it was on.
  ~ActivityTracer();
  ActivityTracer(const ActivityTracer&) = delete;
  ActivityTracer& operator=(const ActivityTracer&) = delete;

  // Whether CUPTI is installed.
  static bool available();

  // Throws: DeviceError when CUPTI refuses, as beside another tool that traces the process.
  void start();
  void stop() noexcept;

  // A number for a piece of work; calls between push and pop are made for it.
  std::uint64_t next_id() { return ++last_id_; }
  void push(std::uint64_t id) const;
  void pop() const noexcept;

  // What has been seen since it was last asked, of this tracer's pieces of work, and copies on its device that belong
  // to none (id 0). Requires: the device has done all that was enqueued. Throws: DeviceError.
  std::vector<Activity> take();

 private:
  const std::uint32_t device_;
  const std::uint64_t first_id_;
  std::uint64_t last_id_;
  bool tracing_ = false;
};

}  // namespace ferry::cuda_backend
