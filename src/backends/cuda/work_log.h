// When kernels and copies ran on the device, on the host's clock.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "src/device/activity_source.h"
#include "src/device/driver.h"

namespace ferry::cuda_backend {

// One launch or copy.
struct WorkTag {
  std::uint64_t correlation = 0;
  trace::WorkKind kind = trace::WorkKind::kernel;
  trace::Engine engine = trace::Engine::compute;
  StreamId stream{};
};

class WorkLog {
 public:
  virtual ~WorkLog() = default;

  // Null stops recording. What was recorded so far is delivered to the former observer. Waits for the device.
  virtual void set_observer(WorkObserver* observer) = 0;

  // Around one piece of work that is enqueued on `stream`, by the thread that enqueues it; cancel() in place of end()
  // when that fails. Requires: an observer.
  virtual void begin(cudaStream_t stream, const WorkTag& tag) = 0;
  virtual void end(cudaStream_t stream) = 0;
  virtual void cancel() noexcept = 0;

  // Delivers what has ended, in the order it was enqueued; `all` waits for the rest.
  virtual void deliver(bool all) = 0;

  // See ActivitySource.
  virtual std::optional<CopyActivity> copy_activity() const { return std::nullopt; }
};

// By a pair of events around each piece of work (event_log.cpp).
std::unique_ptr<WorkLog> make_event_log(Device device, const Clock& clock);

// By the activity records of CUPTI (activity_log.cpp), for CUDA device `index`, the current one. Null where CUPTI is
// missing, was switched off (FERRY_CUPTI=0), or does not see a copy that is made to try it, which is said once.
std::unique_ptr<WorkLog> make_activity_log(Device device, int index, const Clock& clock);

// Around work that may throw.
class LoggedWork {
 public:
  // Null: nothing is logged.
  LoggedWork(WorkLog* log, cudaStream_t stream, const WorkTag& tag) : log_(log), stream_(stream) {
    if (log_ != nullptr) log_->begin(stream, tag);
  }
  ~LoggedWork() {
    if (log_ != nullptr) log_->cancel();
  }
  LoggedWork(const LoggedWork&) = delete;
  LoggedWork& operator=(const LoggedWork&) = delete;

  void end() {
    if (WorkLog* const log = log_; log != nullptr) {
      log_ = nullptr;
      log->end(stream_);
    }
  }

 private:
  WorkLog* log_;
  cudaStream_t stream_;
};

}  // namespace ferry::cuda_backend
