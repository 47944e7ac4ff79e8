#include "profiler/thread_log.h"

#include <bit>

namespace ferry::profiler {
namespace {

constexpr std::size_t kMaxVarint = RecordLog::kMaxVarint;

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

std::uint64_t pack(Device device, trace::PlacementCause cause, trace::Phase phase, bool has_gpu_kernel) {
  return static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.type)) |
         static_cast<std::uint64_t>(static_cast<std::uint8_t>(device.index)) << 8 |
         static_cast<std::uint64_t>(cause) << 16 | static_cast<std::uint64_t>(phase) << 24 |
         static_cast<std::uint64_t>(has_gpu_kernel) << 32;
}

CallKey key_of(std::string_view op, const std::source_location& where, std::uint64_t scope) {
  return {.op_data = address(op.data()),
          .op_size = op.size(),
          .file = address(where.file_name()),
          .function = address(where.function_name()),
          .line_and_scope = static_cast<std::uint64_t>(where.line()) << 32 | scope};
}

}  // namespace

std::uint64_t ThreadLog::string_number(std::string_view text) {
  if (text.empty()) return 0;
  if (text == last_text_) return last_string_;
  auto found = strings_.find(text);
  if (found == strings_.end()) {
    RecordLog::Writer out(log_, 1 + kMaxVarint + text.size());
    out.byte(static_cast<std::uint8_t>(RecordKind::string));
    out.text(text);
    found = strings_.emplace(text, strings_.size() + 1).first;
  }
  last_text_ = text;
  return last_string_ = found->second;
}

std::uint64_t ThreadLog::call_number(const CallKey& key) {
  const auto [entry, is_new] = calls_.try_emplace(key, calls_.size());
  if (is_new) {
    RecordLog::Writer out(log_, 1 + sizeof(CallKey));
    out.byte(static_cast<std::uint8_t>(RecordKind::call));
    out.raw(key);
  }
  return entry->second;
}

void ThreadLog::define_if_new(const TensorMention& tensor) {
  std::uint64_t& slot = seen_[tensor.id % kSeen];
  const std::uint64_t entry = tensor.id << 1 | (tensor.name != nullptr ? 1 : 0);
  if (slot == entry || slot == (tensor.id << 1 | 1)) [[likely]]
    return;
  slot = entry;
  define(tensor);
}

void ThreadLog::define(const TensorMention& tensor) {
  const std::string_view name = tensor.name != nullptr ? std::string_view(*tensor.name) : std::string_view();
  RecordLog::Writer out(log_, 3 + (5 + kMaxRank) * kMaxVarint + sizeof(void*) + name.size());
  out.byte(static_cast<std::uint8_t>(RecordKind::tensor));
  out.number(tensor.id);
  out.raw(tensor.producer.data());
  out.number(tensor.producer.size());
  out.number(tensor.number);
  out.text(name);
  out.byte(static_cast<std::uint8_t>(tensor.dtype));
  const int rank = tensor.shape != nullptr ? tensor.shape->rank() : 0;
  out.byte(static_cast<std::uint8_t>(rank));
  for (int i = 0; i < rank; ++i) out.difference((*tensor.shape)[i]);
}

void ThreadLog::interval(RecordLog::Writer& out, Nanoseconds begin, Nanoseconds end) {
  out.difference(begin.count() - last_begin_);
  out.difference((end - begin).count());
  last_begin_ = begin.count();
}

void ThreadLog::mention(RecordLog::Writer& out, const TensorMention& tensor) {
  const auto difference = static_cast<std::int64_t>(tensor.id - last_tensor_);
  out.number(zigzag(difference) << 1 | (tensor.host ? 1 : 0));
  last_tensor_ = tensor.id;
}

void ThreadLog::correlation(RecordLog::Writer& out, std::uint64_t value) {
  out.difference(static_cast<std::int64_t>(value - last_correlation_));
  last_correlation_ = value;
}

void ThreadLog::record_op(const OpEvent& event) {
  CallKey key = key_of(event.op, event.where, string_number(event.scope));
  key.placement = pack(event.device, event.cause, event.phase, event.has_gpu_kernel);
  key.flops = std::bit_cast<std::uint64_t>(event.flops);
  key.bytes = std::bit_cast<std::uint64_t>(event.bytes);
  const std::uint64_t call = call_number(key);
  for (const TensorMention& tensor : event.inputs) define_if_new(tensor);
  for (const TensorMention& tensor : event.outputs) define_if_new(tensor);

  RecordLog::Writer out(log_, 1 + (6 + event.inputs.size() + event.outputs.size()) * kMaxVarint);
  out.byte(static_cast<std::uint8_t>(RecordKind::op));
  out.number(call);
  interval(out, event.begin, event.end);
  correlation(out, event.correlation);
  out.number(event.inputs.size());
  out.number(event.outputs.size());
  for (const TensorMention& tensor : event.inputs) mention(out, tensor);
  for (const TensorMention& tensor : event.outputs) mention(out, tensor);
}

void ThreadLog::record_copy(const CopyEvent& event) {
  CallKey key = key_of(event.op, event.where, string_number(event.scope));
  key.placement = pack(event.to, event.placement, trace::Phase::forward, true);
  const std::uint64_t call = call_number(key);
  define_if_new(event.tensor);

  RecordLog::Writer out(log_, 7 + 6 * kMaxVarint);
  out.byte(static_cast<std::uint8_t>(RecordKind::copy));
  out.number(call);
  interval(out, event.begin, event.end);
  correlation(out, event.correlation);
  mention(out, event.tensor);
  out.difference(event.size.count);
  out.raw(event.from);
  out.byte(static_cast<std::uint8_t>(event.from_memory));
  out.byte(static_cast<std::uint8_t>(event.to_memory));
  out.byte(static_cast<std::uint8_t>(event.cause));
  out.byte(event.synchronous ? 1 : 0);
}

void ThreadLog::record_scope(std::string_view name, int depth, Nanoseconds begin, Nanoseconds end) {
  const std::uint64_t string = string_number(name);
  RecordLog::Writer out(log_, 1 + 4 * kMaxVarint);
  out.byte(static_cast<std::uint8_t>(RecordKind::scope));
  out.number(string);
  out.difference(depth);
  interval(out, begin, end);
}

void ThreadLog::record_memory(Device device, Nanoseconds at, Bytes allocated, Bytes reserved) {
  RecordLog::Writer out(log_, 1 + sizeof(Device) + 4 * kMaxVarint);
  out.byte(static_cast<std::uint8_t>(RecordKind::memory));
  out.raw(device);
  interval(out, at, at);
  out.difference(allocated.count);
  out.difference(reserved.count);
}

void ThreadLog::record_work(const trace::WorkRecord& record) {
  RecordLog::Writer out(log_, 3 + sizeof(Device) + 4 * kMaxVarint);
  out.byte(static_cast<std::uint8_t>(RecordKind::work));
  correlation(out, record.correlation);
  out.byte(static_cast<std::uint8_t>(record.kind));
  out.byte(static_cast<std::uint8_t>(record.engine));
  out.raw(record.device);
  out.difference(record.stream);
  interval(out, record.begin, record.end);
}

}  // namespace ferry::profiler
