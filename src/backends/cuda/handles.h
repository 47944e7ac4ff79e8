// The streams and events of one device by the numbers that Driver gives them.
//
// Thread-safety: all methods may be called from any thread. Requires: the device is the calling thread's current one.
// Throws: DeviceError; also for numbers that do not exist.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/backends/cuda/workspace.h"
#include "src/device/driver.h"

namespace ferry::cuda_backend {

class Handles {
 public:
  struct Event {
    cudaEvent_t handle = nullptr;
    bool alive = false;
    bool recorded = false;  // since it was made
  };

  // `device` is named in errors.
  explicit Handles(std::string device) : device_(std::move(device)) {}
  // Requires: clear() was called.
  ~Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  StreamId make_stream();
  // Work on the stream still ends. Nothing happens for the compute stream and for streams that do not exist.
  cudaError_t destroy_stream(StreamId id) noexcept;
  cudaStream_t stream(StreamId id);
  // Of the stream's kernels. Requires: the stream exists.
  Workspace& workspace(StreamId id);

  // An event that was never recorded; those that were destroyed are used again.
  EventId make_event();
  void destroy_event(EventId id) noexcept;
  Event event(EventId id);
  void note_recorded(EventId id);

  // Destroys everything.
  void clear() noexcept;

 private:
  struct Stream {
    cudaStream_t handle = nullptr;
    bool alive = true;
    std::unique_ptr<Workspace> workspace = std::make_unique<Workspace>();
  };

  const std::string device_;
  std::mutex mutex_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<std::int32_t> free_events_;
};

}  // namespace ferry::cuda_backend
