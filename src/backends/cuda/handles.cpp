#include "src/backends/cuda/handles.h"

#include <fmt/format.h>

#include <utility>

#include <ferry/error.h>
#include "src/backends/cuda/cuda_error.h"

namespace ferry::cuda_backend {

StreamId Handles::make_stream() {
  Stream stream;
  FERRY_CUDA(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
  return {static_cast<std::int32_t>(streams_.size()) - 1};
}

cudaError_t Handles::destroy_stream(StreamId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value <= 0 || index >= streams_.size() || !streams_[index].alive) return cudaSuccess;
  Stream& stream = streams_[index];
  stream.alive = false;
  stream.workspace.reset();
  return cudaStreamDestroy(stream.handle);
}

cudaStream_t Handles::stream(StreamId id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= streams_.size() || !streams_[index].alive) {
    throw DeviceError(fmt::format("{}: stream {} does not exist or was destroyed", device_, id.value),
                      cudaErrorInvalidResourceHandle);
  }
  return streams_[index].handle;
}

Workspace& Handles::workspace(StreamId id) {
  const std::lock_guard lock(mutex_);
  return *streams_[static_cast<std::size_t>(id.value)].workspace;
}

EventId Handles::make_event() {
  const std::lock_guard lock(mutex_);
  if (!free_events_.empty()) {
    const EventId id{free_events_.back()};
    free_events_.pop_back();
    Event& event = events_[static_cast<std::size_t>(id.value)];
    event.alive = true;
    event.recorded = false;
    return id;
  }
  Event event{.alive = true};
  FERRY_CUDA(cudaEventCreateWithFlags(&event.handle, cudaEventDisableTiming));
  events_.push_back(event);
  return {static_cast<std::int32_t>(events_.size()) - 1};
}

void Handles::destroy_event(EventId id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) return;
  // Waits that are enqueued hold what they wait for, so that the handle can be recorded anew.
  events_[index].alive = false;
  free_events_.push_back(id.value);
}

Handles::Event Handles::event(EventId id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id.value);
  if (id.value < 0 || index >= events_.size() || !events_[index].alive) {
    throw DeviceError(fmt::format("{}: event {} does not exist or was destroyed", device_, id.value),
                      cudaErrorInvalidResourceHandle);
  }
  return events_[index];
}

void Handles::note_recorded(EventId id) {
  const std::lock_guard lock(mutex_);
  events_[static_cast<std::size_t>(id.value)].recorded = true;
}

void Handles::clear() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Event& event : events_) cudaEventDestroy(event.handle);
  for (Stream& stream : streams_) {
    stream.workspace.reset();
    if (stream.alive) cudaStreamDestroy(stream.handle);
  }
  events_.clear();
  streams_.clear();
}

}  // namespace ferry::cuda_backend
