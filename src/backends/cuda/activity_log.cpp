// Times of work by CUPTI's activity records, and what it saw of copies.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "src/backends/cuda/activity.h"
#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/shared_library.h"
#include "src/backends/cuda/work_log.h"

namespace ferry::cuda_backend {
namespace {

// So many pieces of work are delivered together at the latest. That waits for the device, for only then is known that
// all kernels of a piece of work have been seen.
constexpr std::size_t kDeliverAt = 16384;

class ActivityLog final : public WorkLog {
 public:
  ActivityLog(Device device, int index, const Clock& clock) : device_(device), clock_(clock), tracer_(index) {}

  void set_observer(WorkObserver* observer) override;
  void begin(cudaStream_t stream, const WorkTag& tag) override;
  void end(cudaStream_t stream) override;
  void cancel() noexcept override;
  void deliver(bool all) override;
  std::optional<CopyActivity> copy_activity() const override;

 private:
  struct Entry {
    WorkTag tag;
    Nanoseconds begin{}, end{};
    bool seen = false;
  };
  void add(const Activity& activity);
  void count_copy(const Activity& activity);

  const Device device_;
  const Clock& clock_;
  ActivityTracer tracer_;
  WorkObserver* observer_ = nullptr;
  Nanoseconds zero_{};  // the clock's zero on the steady clock
  std::uint64_t begun_ = 0;
  std::map<std::uint64_t, Entry> entries_;
  CopyActivity copies_{.library = "CUPTI"};
};

void ActivityLog::set_observer(WorkObserver* observer) {
  if (observer_ != nullptr) deliver(true);
  observer_ = observer;
  if (observer == nullptr) return tracer_.stop();
  copies_ = {.library = "CUPTI"};
  zero_ = std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()) - clock_.now();
  FERRY_CUDA(cudaDeviceSynchronize());
  tracer_.start();
}

void ActivityLog::begin(cudaStream_t /*stream*/, const WorkTag& tag) {
  begun_ = tracer_.next_id();
  tracer_.push(begun_);
  entries_.emplace(begun_, Entry{.tag = tag});
}

void ActivityLog::end(cudaStream_t /*stream*/) {
  tracer_.pop();
  if (entries_.size() >= kDeliverAt) deliver(true);
}

void ActivityLog::cancel() noexcept {
  tracer_.pop();
  entries_.erase(begun_);
}

void ActivityLog::deliver(bool all) {
  if (!all || observer_ == nullptr) return;
  FERRY_CUDA(cudaDeviceSynchronize());
  for (const Activity& activity : tracer_.take()) add(activity);
  for (const auto& [id, entry] : std::exchange(entries_, {})) {
    if (!entry.seen) continue;
    observer_->on_work({.correlation = entry.tag.correlation,
                        .kind = entry.tag.kind,
                        .engine = entry.tag.engine,
                        .device = device_,
                        .stream = entry.tag.stream.value,
                        .begin = entry.begin - zero_,
                        .end = entry.end - zero_});
  }
}

// A launch of several kernels lasts from the first to the last.
void ActivityLog::add(const Activity& activity) {
  const auto found = entries_.find(activity.id);
  if (activity.kind == trace::WorkKind::copy && !activity.within_device) {
    if (found == entries_.end()) {
      ++copies_.others;
    } else if (found->second.tag.kind == trace::WorkKind::copy) {
      count_copy(activity);
    }
  }
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.begin = entry.seen ? std::min(entry.begin, activity.begin) : activity.begin;
  entry.end = entry.seen ? std::max(entry.end, activity.end) : activity.end;
  entry.seen = true;
}

void ActivityLog::count_copy(const Activity& activity) {
  auto row = std::ranges::find_if(
      copies_.kinds, [&](const CopyKinds& kinds) { return kinds.from == activity.from && kinds.to == activity.to; });
  if (row == copies_.kinds.end()) {
    row = copies_.kinds.insert(row, {.from = activity.from, .to = activity.to});
  }
  ++row->calls;
  row->size += activity.size;
  row->time += activity.end - activity.begin;
}

std::optional<CopyActivity> ActivityLog::copy_activity() const { return copies_; }

// One copy, to see whether CUPTI sees it. Some installations load and enable it and hand over nothing.
class Trial final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

class TrialMemory {
 public:
  static constexpr std::size_t kSize = 4096;

  TrialMemory() {
    FERRY_CUDA(cudaMalloc(&device, kSize));
    FERRY_CUDA(cudaHostAlloc(&host, kSize, cudaHostAllocPortable));
    FERRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~TrialMemory() {
    if (stream != nullptr) cudaStreamDestroy(stream);
    if (host != nullptr) cudaFreeHost(host);
    cudaFree(device);
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;

  void* device = nullptr;
  void* host = nullptr;
  cudaStream_t stream = nullptr;
};

// Throws: DeviceError, saying what is wrong.
void try_log(WorkLog& log, const Clock& clock) {
  constexpr Nanoseconds kTolerance{1'000'000};
  const TrialMemory memory;
  Trial trial;
  log.set_observer(&trial);
  const Nanoseconds begin = clock.now();
  {
    LoggedWork work(&log, memory.stream, {.correlation = 1, .kind = trace::WorkKind::copy});
    FERRY_CUDA(cudaMemcpyAsync(memory.device, memory.host, TrialMemory::kSize, cudaMemcpyHostToDevice, memory.stream));
    work.end();
  }
  log.set_observer(nullptr);
  const Nanoseconds end = clock.now();
  const auto fail = [](const std::string& text) { throw DeviceError(text, cudaErrorUnknown); };
  if (trial.records.size() != 1) fail(fmt::format("of one copy it saw {}", trial.records.size()));
  const trace::WorkRecord& record = trial.records.front();
  if (record.begin > record.end || record.begin < begin - kTolerance || record.end > end + kTolerance) {
    fail(fmt::format("a copy made in [{}, {}) ns was seen in [{}, {}) ns", begin.count(), end.count(),
                     record.begin.count(), record.end.count()));
  }
}

}  // namespace

std::unique_ptr<WorkLog> make_activity_log(Device device, int index, const Clock& clock) {
  if (environment_is("FERRY_CUPTI", "0") || !ActivityTracer::available()) return nullptr;
  try {
    auto log = std::make_unique<ActivityLog>(device, index, clock);
    try_log(*log, clock);
    return log;
  } catch (const DeviceError& error) {
    static std::once_flag said;
    std::call_once(said, [&] {
      fmt::print(stderr, "ferry: CUPTI is not used, and events give the times of work: {}\n", error.what());
    });
    return nullptr;
  }
}

}  // namespace ferry::cuda_backend
