#include "src/backends/cpu/cpu_driver.h"

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <utility>

#include "src/backends/cpu/host_memory.h"
#include "src/backends/cpu/openmp_threads.h"
#include "src/base/check.h"

namespace ferry {
namespace cpu_backend {
namespace {

// The processor's own name where the system tells it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "host processor";
}

class CpuDriver final : public Driver {
 public:
  explicit CpuDriver(CpuOptions options)
      : options_(std::move(options)),
        info_{.name = "cpu",
              .description = processor_name(),
              .capacity = host_memory_capacity(),
              .simulated = false,
              .computes_values = options_.values} {
    if (options_.checker != nullptr) checker_id_ = options_.checker->add_driver(info_.name);
  }

  const DriverInfo& info() const override { return info_; }
  Clock& clock() override { return options_.clock ? static_cast<Clock&>(*options_.clock) : real_clock_; }
  std::span<const KernelEntry> kernels() const override { return cpu_kernels(); }
  bool needs_cost() const override { return options_.clock != nullptr && !options_.measured_time; }

  void* allocate(Bytes size) override {
    return map_host_memory(size, options_.values ? Contents::present : Contents::absent);
  }
  void free(void* pointer, Bytes size) noexcept override {
    if (options_.checker != nullptr && pointer != nullptr) options_.checker->forgotten(pointer, size.count);
    unmap_host_memory(pointer, size);
  }
  void* allocate_pinned(Bytes size) override { return allocate(size); }
  void free_pinned(void* pointer, Bytes size) noexcept override { free(pointer, size); }

  void note_allocated(void* pointer, Bytes size, StreamId) override {
    if (options_.checker != nullptr) options_.checker->allocated(checker_id_, pointer, size.count, StreamId{-1});
  }
  void note_freed(void* pointer, Bytes size, StreamId) override {
    if (options_.checker != nullptr) options_.checker->freed(checker_id_, pointer, size.count);
  }

  // Work has ended when launch returns, so that streams and events order nothing more.
  StreamId create_stream(std::string_view) override { return StreamId{next_stream_.fetch_add(1)}; }
  void destroy_stream(StreamId) noexcept override {}
  EventId create_event() override { return EventId{next_event_.fetch_add(1)}; }
  void destroy_event(EventId) noexcept override {}
  void record_event(EventId, StreamId) override {}
  void wait_event(StreamId, EventId) override {}
  bool query_event(EventId) override { return true; }
  void synchronize_event(EventId) override {}
  void synchronize_stream(StreamId) override {}
  void synchronize() override {}

  void copy(const CopyRequest& request, StreamId stream) override;
  void launch(const KernelLaunch& launch, StreamId stream) override;

  void set_work_observer(WorkObserver* observer) override { observer_.store(observer, std::memory_order_release); }

 private:
  template <class Work>
  void timed(const Cost& cost, const Work& work);
  template <class Work>
  void run(trace::WorkKind kind, std::uint64_t correlation, StreamId stream, const Cost& cost, const Work& work);
  void check_accesses(const KernelLaunch& launch);

  CpuOptions options_;
  DriverInfo info_;
  RealClock real_clock_;
  int checker_id_ = 0;
  std::atomic<std::int32_t> next_stream_{1};
  std::atomic<std::int32_t> next_event_{0};
  std::atomic<WorkObserver*> observer_{nullptr};
};

// Does the work and lets it take its time on the virtual clock, if there is one.
template <class Work>
void CpuDriver::timed(const Cost& cost, const Work& work) {
  if (options_.clock == nullptr) {
    if (options_.values) work();
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  if (options_.values) work();
  options_.clock->advance(options_.measured_time ? Nanoseconds(std::chrono::steady_clock::now() - start)
                                                 : options_.model.duration(cost));
}

template <class Work>
void CpuDriver::run(trace::WorkKind kind, std::uint64_t correlation, StreamId stream, const Cost& cost,
                    const Work& work) {
  WorkObserver* const observer = correlation == 0 ? nullptr : observer_.load(std::memory_order_acquire);
  if (observer == nullptr) {
    timed(cost, work);
    return;
  }
  const Nanoseconds begin = clock().now();
  timed(cost, work);
  observer->on_work({.correlation = correlation,
                     .kind = kind,
                     .engine = trace::Engine::compute,
                     .device = cpu::device,
                     .stream = stream.value,
                     .begin = begin,
                     .end = clock().now()});
}

void CpuDriver::check_accesses(const KernelLaunch& launch) {
  constexpr std::size_t kMost = 64;
  std::array<MemoryAccess, kMost> accesses;
  std::size_t count = 0;
  const auto add = [&](std::span<const TensorView> views, bool write) {
    for (const TensorView& view : views) {
      if (!view.given || view.data == nullptr || view.numel() == 0) continue;
      if (count == kMost) {
        options_.checker->host_access(launch.context.op, std::span(accesses).first(count));
        count = 0;
      }
      accesses[count++] = access_of(view, write);
    }
  };
  add(launch.context.inputs, false);
  add(launch.context.outputs, true);
  options_.checker->host_access(launch.context.op, std::span(accesses).first(count));
}

void CpuDriver::copy(const CopyRequest& request, StreamId stream) {
  if (options_.checker != nullptr) {
    const std::array accesses = {MemoryAccess{request.source, request.size.count, false},
                                 MemoryAccess{request.destination, request.size.count, true}};
    options_.checker->host_access(request.label, accesses);
  }
  const Cost cost{.op_class = OpClass::copy, .bytes = 2.0 * static_cast<double>(request.size.count)};
  run(trace::WorkKind::copy, request.correlation, stream, cost,
      [&] { copy_host_memory(request.destination, request.source, request.size); });
}

void CpuDriver::launch(const KernelLaunch& launch, StreamId stream) {
  if (options_.checker != nullptr) check_accesses(launch);
  try {
    run(trace::WorkKind::kernel, launch.correlation, stream, launch.cost, [&] { launch.kernel(launch.context); });
  } catch (Error& error) {
    error.locate(launch.context.op, launch.where);
    throw;
  }
}

}  // namespace
}  // namespace cpu_backend

std::unique_ptr<Driver> make_cpu_driver(CpuOptions options) {
  cpu_backend::let_idle_openmp_threads_sleep();
  return std::make_unique<cpu_backend::CpuDriver>(std::move(options));
}

}  // namespace ferry
