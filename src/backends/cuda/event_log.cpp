// A pair of events around each piece of work, read once they have passed.
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/work_log.h"

namespace ferry::cuda_backend {
namespace {

constexpr std::size_t kDeliverAt = 1024;  // entries, so that events and memory stay few
constexpr Nanoseconds kAnchorFor{2'000'000'000};

Nanoseconds elapsed(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  FERRY_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
  return Nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

class EventLog final : public WorkLog {
 public:
  EventLog(Device device, const Clock& clock) : device_(device), clock_(clock) {}
  ~EventLog() override;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void set_observer(WorkObserver* observer) override;
  void begin(cudaStream_t stream, const WorkTag& tag) override;
  void end(cudaStream_t stream) override;
  // The event that was recorded is recorded anew by the next piece of work.
  void cancel() noexcept override {}
  void deliver(bool all) override;

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
  WorkTag tag_{};  // of what was begun
  std::deque<Entry> entries_;
  std::vector<cudaEvent_t> free_events_;
};

EventLog::Anchor::~Anchor() {
  if (event != nullptr) cudaEventDestroy(event);
}

EventLog::~EventLog() {
  for (const Entry& entry : entries_) {
    cudaEventDestroy(entry.begin);
    cudaEventDestroy(entry.end);
  }
  for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
  if (begun_ != nullptr) cudaEventDestroy(begun_);
}

cudaEvent_t EventLog::take_event() {
  if (!free_events_.empty()) {
    const cudaEvent_t event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  FERRY_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

void EventLog::set_observer(WorkObserver* observer) {
  if (observer_ != nullptr) deliver(true);
  observer_ = observer;
  anchor_ = nullptr;
  if (observer != nullptr) start_clock();
}

void EventLog::start_clock() {
  anchor_ = std::make_shared<Anchor>();
  FERRY_CUDA(cudaEventCreateWithFlags(&anchor_->event, cudaEventDefault));
  FERRY_CUDA(cudaDeviceSynchronize());
  FERRY_CUDA(cudaEventRecord(anchor_->event, cudaStreamPerThread));
  FERRY_CUDA(cudaEventSynchronize(anchor_->event));
  anchored_ = anchor_->time = clock_.now();
}

void EventLog::move_anchor(cudaStream_t stream) {
  const Nanoseconds now = clock_.now();
  if (now - anchored_ < kAnchorFor) return;
  auto next = std::make_shared<Anchor>();
  FERRY_CUDA(cudaEventCreateWithFlags(&next->event, cudaEventDefault));
  FERRY_CUDA(cudaEventRecord(next->event, stream));
  next->before = std::exchange(anchor_, next);
  anchored_ = now;
}

Nanoseconds EventLog::resolve(Anchor& anchor) {
  if (anchor.before == nullptr) return anchor.time;
  FERRY_CUDA(cudaEventSynchronize(anchor.event));
  anchor.time = resolve(*anchor.before) + elapsed(anchor.before->event, anchor.event);
  anchor.before = nullptr;
  return anchor.time;
}

Nanoseconds EventLog::time_of(Anchor& anchor, cudaEvent_t event) const {
  return resolve(anchor) + elapsed(anchor.event, event);
}

void EventLog::begin(cudaStream_t stream, const WorkTag& tag) {
  move_anchor(stream);
  if (begun_ == nullptr) begun_ = take_event();
  FERRY_CUDA(cudaEventRecord(begun_, stream));
  tag_ = tag;
}

void EventLog::end(cudaStream_t stream) {
  const cudaEvent_t end = take_event();
  FERRY_CUDA(cudaEventRecord(end, stream));
  entries_.push_back({std::exchange(begun_, nullptr),
                      end,
                      anchor_,
                      {.correlation = tag_.correlation,
                       .kind = tag_.kind,
                       .engine = tag_.engine,
                       .device = device_,
                       .stream = tag_.stream.value}});
  if (entries_.size() >= kDeliverAt) deliver(false);
}

void EventLog::deliver(bool all) {
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

}  // namespace

std::unique_ptr<WorkLog> make_event_log(Device device, const Clock& clock) {
  return std::make_unique<EventLog>(device, clock);
}

}  // namespace ferry::cuda_backend
