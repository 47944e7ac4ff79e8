#include "profiler/recorder.h"

#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "profiler/merge.h"
#include "profiler/thread_log.h"

namespace ferry::profiler {
namespace {

// Numbers recorders, never reusing one, so that a thread's cached log cannot be taken for that of a later recorder at
// the same address.
std::uint64_t next_recorder_number() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

struct CachedLog {
  std::uint64_t recorder = 0;
  ThreadLog* log = nullptr;
};
thread_local constinit CachedLog cached_log;

}  // namespace

struct Recorder::Buffers {
  const std::uint64_t number = next_recorder_number();
  std::atomic<std::int64_t> unavailable_reads{0};
  std::mutex mutex;  // guards the members below; taken once a thread and recorder, and by finish
  std::vector<std::unique_ptr<ThreadLog>> logs;
  std::unordered_map<std::thread::id, ThreadLog*> by_thread;

  ThreadLog& current() {
    if (cached_log.recorder != number) [[unlikely]]
      cached_log = {number, &register_thread()};
    return *cached_log.log;
  }

  ThreadLog& register_thread() {
    const std::lock_guard lock(mutex);
    ThreadLog*& log = by_thread[std::this_thread::get_id()];
    if (log == nullptr) {
      logs.push_back(std::make_unique<ThreadLog>(static_cast<std::uint32_t>(logs.size())));
      log = logs.back().get();
    }
    return *log;
  }
};

Recorder::Recorder() : buffers_(std::make_unique<Buffers>()) {}
Recorder::~Recorder() = default;

void Recorder::record_op(const OpEvent& event) { buffers_->current().record_op(event); }

void Recorder::record_copy(const CopyEvent& event) { buffers_->current().record_copy(event); }

void Recorder::record_scope(std::string_view name, int depth, Nanoseconds begin, Nanoseconds end) {
  buffers_->current().record_scope(name, depth, begin, end);
}

void Recorder::record_memory(Device device, Nanoseconds at, Bytes allocated, Bytes reserved) {
  buffers_->current().record_memory(device, at, allocated, reserved);
}

void Recorder::count_unavailable_read() { buffers_->unavailable_reads.fetch_add(1, std::memory_order_relaxed); }

void Recorder::on_work(const trace::WorkRecord& record) { buffers_->current().record_work(record); }

trace::Trace Recorder::finish() const {
  const std::lock_guard lock(buffers_->mutex);
  std::vector<const ThreadLog*> logs;
  for (const auto& log : buffers_->logs) logs.push_back(log.get());
  trace::Trace trace = merge(logs);
  trace.unavailable_reads = buffers_->unavailable_reads.load(std::memory_order_relaxed);
  return trace;
}

}  // namespace ferry::profiler
