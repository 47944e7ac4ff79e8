#include "src/backends/cuda/work_log.h"

#include <cmath>
#include <utility>

#include "src/backends/cuda/cuda_error.h"

namespace ferry::cuda_backend {
namespace {

constexpr std::size_t kDeliverAt = 1024;  // entries, so that events and memory stay few
constexpr Nanoseconds kAnchorFor{2'000'000'000};

Nanoseconds elapsed(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  FERRY_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
  return Nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace

WorkLog::Anchor::~Anchor() {
  if (event != nullptr) cudaEventDestroy(event);
}

WorkLog::~WorkLog() {
  for (const Entry& entry : entries_) {
    cudaEventDestroy(entry.begin);
    cudaEventDestroy(entry.end);
  }
  for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
  if (begun_ != nullptr) cudaEventDestroy(begun_);
}

cudaEvent_t WorkLog::take_event() {
  if (!free_events_.empty()) {
    const cudaEvent_t event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  FERRY_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

void WorkLog::set_observer(WorkObserver* observer) {
  if (observer_ != nullptr) deliver(true);
  observer_ = observer;
  anchor_ = nullptr;
  if (observer != nullptr) start_clock();
}

void WorkLog::start_clock() {
  anchor_ = std::make_shared<Anchor>();
  FERRY_CUDA(cudaEventCreateWithFlags(&anchor_->event, cudaEventDefault));
  FERRY_CUDA(cudaDeviceSynchronize());
  FERRY_CUDA(cudaEventRecord(anchor_->event, cudaStreamPerThread));
  FERRY_CUDA(cudaEventSynchronize(anchor_->event));
  anchored_ = anchor_->time = clock_.now();
}

void WorkLog::move_anchor(cudaStream_t stream) {
  const Nanoseconds now = clock_.now();
  if (now - anchored_ < kAnchorFor) return;
  auto next = std::make_shared<Anchor>();
  FERRY_CUDA(cudaEventCreateWithFlags(&next->event, cudaEventDefault));
  FERRY_CUDA(cudaEventRecord(next->event, stream));
  next->before = std::exchange(anchor_, next);
  anchored_ = now;
}

Nanoseconds WorkLog::resolve(Anchor& anchor) {
  if (anchor.before == nullptr) return anchor.time;
  FERRY_CUDA(cudaEventSynchronize(anchor.event));
  anchor.time = resolve(*anchor.before) + elapsed(anchor.before->event, anchor.event);
  anchor.before = nullptr;
  return anchor.time;
}

Nanoseconds WorkLog::time_of(Anchor& anchor, cudaEvent_t event) const {
  return resolve(anchor) + elapsed(anchor.event, event);
}

void WorkLog::begin(cudaStream_t stream) {
  move_anchor(stream);
  if (begun_ == nullptr) begun_ = take_event();
  FERRY_CUDA(cudaEventRecord(begun_, stream));
}

void WorkLog::end(cudaStream_t stream, StreamId id, trace::WorkKind kind, trace::Engine engine,
                  std::uint64_t correlation) {
  const cudaEvent_t end = take_event();
  FERRY_CUDA(cudaEventRecord(end, stream));
  entries_.push_back(
      {std::exchange(begun_, nullptr),
       end,
       anchor_,
       {.correlation = correlation, .kind = kind, .engine = engine, .device = device_, .stream = id.value}});
  if (entries_.size() >= kDeliverAt) deliver(false);
}

void WorkLog::deliver(bool all) {
  while (!entries_.empty()) {
    Entry& entry = entries_.front();
    if (all) {
      FERRY_CUDA(cudaEventSynchronize(entry.end));
    } else if (const cudaError_t state = cudaEventQuery(entry.end); state == cudaErrorNotReady) {
      cudaGetLastError();
      return;
    } else {
      check(state, "cudaEventQuery(entry.end)");
    }
    entry.record.begin = time_of(*entry.anchor, entry.begin);
    entry.record.end = entry.record.begin + elapsed(entry.begin, entry.end);
    if (observer_ != nullptr) observer_->on_work(entry.record);
    free_events_.push_back(entry.begin);
    free_events_.push_back(entry.end);
    entries_.pop_front();
  }
}

}  // namespace ferry::cuda_backend
