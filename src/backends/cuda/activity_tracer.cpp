#include <cupti.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "src/backends/cuda/activity.h"
#include "src/backends/cuda/activity_reader.h"
#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/shared_library.h"

namespace ferry::cuda_backend {
namespace {

constexpr std::size_t kBufferSize = std::size_t{4} << 20, kBufferAlignment = 64;
constexpr std::uint64_t kIdsOfATracer = std::uint64_t{1} << 40;
constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
// Calls of the runtime and of the driver join kernels to pieces of work; their own records are passed over.
constexpr std::array kKinds{
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMCPY2};

// The functions of CUPTI that are called.
struct CuptiFunctions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityPushExternalCorrelationId) push;
  decltype(&cuptiActivityPopExternalCorrelationId) pop;
  decltype(&cuptiGetResultString) result_string;
};

std::uint64_t steady_time() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// CUPTI is one for the process; so is this. It is never destroyed: CUPTI's own thread may hand over buffers until the
// process has ended.
class Session {
 public:
  static Session& get() {
    static Session* const session = new Session;
    return *session;
  }

  const CuptiFunctions& functions() const { return functions_; }

  void begin() {
    const std::lock_guard lock(users_mutex_);
    if (users_ == 0) enable_all();
    ++users_;
  }
  void end() noexcept {
    const std::lock_guard lock(users_mutex_);
    if (--users_ > 0) return;
    for (const CUpti_ActivityKind kind : kKinds) functions_.disable(kind);
  }

  // Hands over what CUPTI has. Its callback may be called by this thread.
  void flush() { require(functions_.flush(0), "cuptiActivityFlushAll"); }

  // Of ids in [first, last) and of nobody's on `device`.
  std::vector<Activity> take(std::uint64_t first, std::uint64_t last, std::uint32_t device) {
    const std::lock_guard lock(mutex_);
    std::vector<Activity> fresh = reader_.take();
    waiting_.insert(waiting_.end(), fresh.begin(), fresh.end());
    std::vector<Activity> taken = reader_.take_unclaimed(device);
    std::erase_if(waiting_, [&](const Activity& activity) {
      const bool ours = activity.id >= first && activity.id < last;
      if (ours) taken.push_back(activity);
      return ours;
    });
    reader_.forget(first, last);
    return taken;
  }

  void require(CUptiResult result, const char* call,
               const std::source_location& where = std::source_location::current()) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = "unknown error";
    functions_.result_string(result, &text);
    fail_library("CUPTI", call, text, static_cast<int>(result), where);
  }

 private:
  Session() {
    const SharedLibrary library(cupti_library());
    library.find(functions_.register_callbacks, "cuptiActivityRegisterCallbacks");
    library.find(functions_.register_clock, "cuptiActivityRegisterTimestampCallback");
    library.find(functions_.enable, "cuptiActivityEnable");
    library.find(functions_.disable, "cuptiActivityDisable");
    library.find(functions_.flush, "cuptiActivityFlushAll");
    library.find(functions_.next_record, "cuptiActivityGetNextRecord");
    library.find(functions_.push, "cuptiActivityPushExternalCorrelationId");
    library.find(functions_.pop, "cuptiActivityPopExternalCorrelationId");
    library.find(functions_.result_string, "cuptiGetResultString");
  }

  void enable_all() {
    if (!registered_) {
      require(functions_.register_clock(steady_time), "cuptiActivityRegisterTimestampCallback");
      require(functions_.register_callbacks(request_buffer, complete_buffer), "cuptiActivityRegisterCallbacks");
      registered_ = true;
    }
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const CUptiResult result = functions_.enable(kKinds[i]);
      if (result == CUPTI_SUCCESS) continue;
      while (i > 0) functions_.disable(kKinds[--i]);
      require(result, "cuptiActivityEnable");
    }
  }

  static void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferSize));
    *size = *buffer == nullptr ? 0 : kBufferSize;
    *most_records = 0;
  }
  static void CUPTIAPI complete_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    Session& session = get();
    {
      const std::lock_guard lock(session.mutex_);
      CUpti_Activity* record = nullptr;
      while (valid > 0 && session.functions_.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
        session.reader_.read(*record);
      }
    }
    std::free(buffer);
  }

  CuptiFunctions functions_{};
  std::mutex users_mutex_;
  int users_ = 0;
  bool registered_ = false;
  std::mutex mutex_;  // of what follows; not held while CUPTI is called
  ActivityReader reader_;
  std::vector<Activity> waiting_;  // of tracers that have not asked
};

std::uint64_t first_id_of_a_new_tracer() {
  static std::atomic<std::uint64_t> tracers{0};
  return (tracers.fetch_add(1, std::memory_order_relaxed) + 1) * kIdsOfATracer;
}

}  // namespace

bool ActivityTracer::available() {
  static const bool found = SharedLibrary::exists(cupti_library());
  return found;
}

ActivityTracer::ActivityTracer(int device)
    : device_(static_cast<std::uint32_t>(device)), first_id_(first_id_of_a_new_tracer()), last_id_(first_id_) {}

ActivityTracer::~ActivityTracer() { stop(); }

void ActivityTracer::start() {
  if (tracing_) return;
  Session::get().begin();
  tracing_ = true;
}

void ActivityTracer::stop() noexcept {
  if (!std::exchange(tracing_, false)) return;
  Session::get().end();
}

void ActivityTracer::push(std::uint64_t id) const {
  const Session& session = Session::get();
  session.require(session.functions().push(kOurs, id), "cuptiActivityPushExternalCorrelationId");
}

void ActivityTracer::pop() const noexcept {
  std::uint64_t id = 0;
  Session::get().functions().pop(kOurs, &id);
}

std::vector<Activity> ActivityTracer::take() {
  Session& session = Session::get();
  session.flush();
  return session.take(first_id_, first_id_ + kIdsOfATracer, device_);
}

}  // namespace ferry::cuda_backend
