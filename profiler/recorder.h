// Records what a runtime does into a trace::Trace. Each thread writes to buffers of its own; finish() merges them.
//
// Cost: an op is under 150 ns and about 30 bytes on the writing thread; strings, sites and tensors are interned by
// identity (pointer or id) at record time and resolved at finish().
// Thread-safety: all functions may be called from any thread; finish() sees what was recorded before it was called.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "src/device/driver.h"
#include "src/trace/trace.h"

namespace ferry::profiler {

// A tensor as an op sees it. `id` is unique in the runtime and never reused; 0: an optional argument left out.
struct TensorMention {
  std::uint64_t id = 0;
  std::string_view producer{};        // static: op name for "<op>_<n>"
  std::uint64_t number = 0;           // n
  const std::string* name = nullptr;  // the user's name, or null; copied when first seen
  DType dtype = DType::f32;
  const Shape* shape = nullptr;  // copied when first seen
  bool host = false;             // see trace::Argument
};

// `op` and `where` point at static storage. `scope` is interned by the recorder (empty: none).
struct OpEvent {
  std::string_view op{};
  std::source_location where{};
  std::string_view scope{};
  Device device{};
  trace::PlacementCause cause = trace::PlacementCause::default_device;
  trace::Phase phase = trace::Phase::forward;
  bool has_gpu_kernel = true;
  std::uint64_t correlation = 0;
  Nanoseconds begin{}, end{};
  double flops = 0, bytes = 0;
  std::span<const TensorMention> inputs{}, outputs{};
};

struct CopyEvent {
  std::string_view op{};  // the op that needed it, "fetch" or "to"; static storage
  std::source_location where{};
  std::string_view scope{};
  TensorMention tensor{};
  Bytes size{};
  Device from{}, to{};
  trace::Memory from_memory = trace::Memory::device, to_memory = trace::Memory::device;
  bool synchronous = false;
  trace::CopyCause cause = trace::CopyCause::implicit;
  trace::PlacementCause placement = trace::PlacementCause::default_device;
  std::uint64_t correlation = 0;
  Nanoseconds begin{}, end{};
};

class Recorder final : public WorkObserver {
 public:
  Recorder();
  ~Recorder() override;

  // A new nonzero id that joins an op or copy to the work records of its device.
  std::uint64_t next_correlation() { return ++correlation_; }

  void record_op(const OpEvent& event);
  // Drain and transfer times are derived at finish() from the copy's work record: drain = work begin - begin (at least
  // 0), transfer = the rest of the interval, for synchronous copies.
  void record_copy(const CopyEvent& event);
  void record_scope(std::string_view name, int depth, Nanoseconds begin, Nanoseconds end);
  void record_memory(Device device, Nanoseconds at, Bytes allocated, Bytes reserved);
  void count_unavailable_read();
  void on_work(const trace::WorkRecord& record) override;

  // Everything recorded so far, merged over threads in order of time. Recording may go on afterwards.
  // The caller fills devices, copy_mode, begin and end.
  trace::Trace finish() const;

 private:
  struct Buffers;
  std::atomic<std::uint64_t> correlation_{0};
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace ferry::profiler
