// What one thread records: a RecordLog and the encoder's state. The format is known to thread_log.cpp (which writes)
// and merge.cpp (which reads) only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "profiler/record_log.h"
#include "profiler/recorder.h"

namespace ferry::profiler {

enum class RecordKind : std::uint8_t { string, call, tensor, op, copy, work, scope, memory };

// What repeats from call to call of one line: written once, then referred to by number. `op` points at static storage.
// Words only, so that equality and hash need no padding rules.
struct CallKey {
  std::uint64_t op_data = 0, op_size = 0;
  std::uint64_t file = 0, function = 0;
  std::uint64_t line_and_scope = 0;    // line << 32 | scope string
  std::uint64_t placement = 0;         // device, cause, phase, has_gpu_kernel: a byte each
  std::uint64_t flops = 0, bytes = 0;  // bits of the doubles
  bool operator==(const CallKey&) const = default;
};

struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const noexcept {
    constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15u;
    std::uint64_t hash = key.op_data * 3 + key.op_size;
    for (const std::uint64_t word :
         {key.file + key.function, key.line_and_scope, key.placement, key.flops, key.bytes}) {
      hash = (hash ^ word) * kPrime;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

// Thread-safety: one thread records; merge.cpp may read `log` at any time.
class ThreadLog {
 public:
  explicit ThreadLog(std::uint32_t number) : number_(number) {}

  void record_op(const OpEvent& event);
  void record_copy(const CopyEvent& event);
  void record_scope(std::string_view name, int depth, Nanoseconds begin, Nanoseconds end);
  void record_memory(Device device, Nanoseconds at, Bytes allocated, Bytes reserved);
  void record_work(const trace::WorkRecord& record);

  // In order of the threads' first records.
  std::uint32_t number() const { return number_; }
  const RecordLog& log() const { return log_; }

 private:
  std::uint64_t string_number(std::string_view text);  // 0: empty
  std::uint64_t call_number(const CallKey& key);
  void define_if_new(const TensorMention& tensor);
  void define(const TensorMention& tensor);
  void interval(RecordLog::Writer& out, Nanoseconds begin, Nanoseconds end);
  void mention(RecordLog::Writer& out, const TensorMention& tensor);
  void correlation(RecordLog::Writer& out, std::uint64_t value);

  // Tensors defined lately, by the low bits of their id: id << 1 | named. A tensor that was pushed out is defined
  // again, which costs bytes and nothing else, and keeps a run of any length in 32 KiB.
  static constexpr std::size_t kSeen = 4096;

  RecordLog log_;
  std::uint32_t number_;
  std::unordered_map<std::string, std::uint64_t, StringHash, std::equal_to<>> strings_;
  std::unordered_map<CallKey, std::uint64_t, CallKeyHash> calls_;
  std::array<std::uint64_t, kSeen> seen_{};
  std::string last_text_;
  std::uint64_t last_string_ = 0;
  std::int64_t last_begin_ = 0;
  std::uint64_t last_correlation_ = 0;
  std::uint64_t last_tensor_ = 0;
};

}  // namespace ferry::profiler
