// When kernels and copies ran on the device: a pair of events around each recorded one, read once they have passed and
// put on the host's clock.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "src/device/driver.h"

namespace ferry::cuda_backend {

class WorkLog {
 public:
  WorkLog(Device device, const Clock& clock) : device_(device), clock_(clock) {}
  ~WorkLog();
  WorkLog(const WorkLog&) = delete;
  WorkLog& operator=(const WorkLog&) = delete;

  // Null stops recording. What was recorded so far is delivered to the former observer. Waits for the device.
  void set_observer(WorkObserver* observer);
  bool records(std::uint64_t correlation) const { return observer_ != nullptr && correlation != 0; }

  // Around one piece of work that is enqueued on `stream`. Requires: records(correlation).
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream, StreamId id, trace::WorkKind kind, trace::Engine engine, std::uint64_t correlation);

  // Delivers what has ended, in the order it was enqueued; `all` waits for the rest.
  void deliver(bool all);

 private:
  // A point in both times: of the device, an event; of the host, its clock. A later one is placed by the distance from
  // the one before, so that no distance grows past what an elapsed time in single precision resolves.
  struct Anchor {
    cudaEvent_t event = nullptr;
    std::shared_ptr<Anchor> before{};
    Nanoseconds time{};  // valid once `before` is null
    ~Anchor();
  };
  struct Entry {
    cudaEvent_t begin, end;
    std::shared_ptr<Anchor> anchor;
    trace::WorkRecord record;
  };

  cudaEvent_t take_event();
  void start_clock();
  void move_anchor(cudaStream_t stream);
  static Nanoseconds resolve(Anchor& anchor);
  Nanoseconds time_of(Anchor& anchor, cudaEvent_t event) const;

  const Device device_;
  const Clock& clock_;
  WorkObserver* observer_ = nullptr;
  std::shared_ptr<Anchor> anchor_;
  Nanoseconds anchored_{};  // host time when the anchor was recorded
  cudaEvent_t begun_ = nullptr;
  std::deque<Entry> entries_;
  std::vector<cudaEvent_t> free_events_;
};

}  // namespace ferry::cuda_backend
