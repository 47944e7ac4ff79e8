#include "profiler/merge.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::profiler {
namespace {

using trace::CopyRecord;
using trace::OpRecord;

struct Call {
  trace::StringIndex op = -1, scope = -1;
  trace::SiteIndex site = -1;
  Device device;
  trace::PlacementCause cause{};
  trace::Phase phase{};
  bool has_gpu_kernel = true;
  double flops = 0, bytes = 0;
};

// Strings and sites of the trace being built. Pointers are looked up first: two may hold the same text.
class Tables {
 public:
  explicit Tables(trace::Trace& trace) : trace_(trace) {}

  trace::StringIndex string(std::string_view text) {
    const auto found = strings_.find(text);
    if (found != strings_.end()) return found->second;
    trace_.strings.emplace_back(text);
    const auto index = static_cast<trace::StringIndex>(trace_.strings.size() - 1);
    strings_.emplace(text, index);
    return index;
  }

  trace::SiteIndex site(const char* file, int line, const char* function) {
    if (file == nullptr || *file == 0) return -1;
    const auto pointers = std::tuple(static_cast<const void*>(file), line, static_cast<const void*>(function));
    const auto known = by_pointer_.find(pointers);
    if (known != by_pointer_.end()) return known->second;
    const auto index = static_cast<trace::SiteIndex>(trace_.sites.size());
    const auto [entry, is_new] =
        by_content_.try_emplace(std::tuple(std::string(file), line, std::string(function)), index);
    if (is_new) trace_.sites.push_back({file, line, function});
    return by_pointer_[pointers] = entry->second;
  }

 private:
  trace::Trace& trace_;
  std::unordered_map<std::string, trace::StringIndex, StringHash, std::equal_to<>> strings_;
  std::map<std::tuple<const void*, int, const void*>, trace::SiteIndex> by_pointer_;
  std::map<std::tuple<std::string, int, std::string>, trace::SiteIndex> by_content_;
};

const char* pointer(std::uint64_t address) { return reinterpret_cast<const char*>(address); }

// Decodes the log of one thread. Tensors keep their ids here (in `ids`): indices are given after sorting.
class Decoder {
 public:
  Decoder(const ThreadLog& thread, Tables& tables, std::unordered_map<std::uint64_t, trace::TensorInfo>& tensors)
      : thread_(thread.number()), in_(thread.log()), tables_(tables), tensors_(tensors) {}

  void run() {
    while (in_.more()) record(static_cast<RecordKind>(in_.byte()));
  }

  struct Op {
    OpRecord record;
    std::vector<std::uint64_t> ids;  // of inputs, then outputs
  };
  struct Copy {
    CopyRecord record;
    std::uint64_t tensor = 0;
  };
  std::vector<Op> ops;
  std::vector<Copy> copies;  // `op` is an index into `ops` of this thread
  std::vector<trace::WorkRecord> work;
  std::vector<trace::ScopeRecord> scopes;
  std::vector<trace::MemorySample> memory;

 private:
  void record(RecordKind kind) {
    switch (kind) {
      case RecordKind::string:
        strings_.push_back(tables_.string(in_.text()));
        break;
      case RecordKind::call:
        calls_.push_back(read_call());
        break;
      case RecordKind::tensor:
        read_tensor();
        break;
      case RecordKind::op:
        read_op();
        break;
      case RecordKind::copy:
        read_copy();
        break;
      case RecordKind::work:
        read_work();
        break;
      case RecordKind::scope:
        read_scope();
        break;
      case RecordKind::memory:
        read_memory();
        break;
    }
  }

  trace::StringIndex string_at(std::uint64_t number) const { return number == 0 ? -1 : strings_[number - 1]; }

  Call read_call() {
    const auto key = in_.raw<CallKey>();
    const auto byte = [&](int i) { return static_cast<std::uint8_t>(key.placement >> (8 * i)); };
    Call call;
    call.op = tables_.string({pointer(key.op_data), key.op_size});
    call.scope = string_at(key.line_and_scope & 0xffffffffu);
    call.site = tables_.site(pointer(key.file), static_cast<int>(key.line_and_scope >> 32), pointer(key.function));
    call.device = {static_cast<DeviceType>(byte(0)), static_cast<std::int8_t>(byte(1))};
    call.cause = static_cast<trace::PlacementCause>(byte(2));
    call.phase = static_cast<trace::Phase>(byte(3));
    call.has_gpu_kernel = byte(4) != 0;
    call.flops = std::bit_cast<double>(key.flops);
    call.bytes = std::bit_cast<double>(key.bytes);
    return call;
  }

  void read_tensor() {
    const std::uint64_t id = in_.number();
    const auto* producer = in_.raw<const char*>();
    const std::string_view op(producer, in_.number());
    const std::uint64_t number = in_.number();
    const std::string_view name = in_.text();
    trace::TensorInfo info;
    info.dtype = static_cast<DType>(in_.byte());
    info.shape = Shape::filled(in_.byte(), 0);
    for (std::int64_t& extent : info.shape) extent = in_.difference();
    info.size = Bytes{info.shape.product() * size_of(info.dtype)};
    info.name = !name.empty() ? std::string(name) : std::string(op) + "_" + std::to_string(number);
    const auto [entry, is_new] = tensors_.try_emplace(id, info);
    if (!is_new && !name.empty()) entry->second.name = std::move(info.name);
  }

  std::pair<Nanoseconds, Nanoseconds> interval() {
    last_begin_ += in_.difference();
    return {Nanoseconds(last_begin_), Nanoseconds(last_begin_ + in_.difference())};
  }
  std::uint64_t correlation() { return last_correlation_ += static_cast<std::uint64_t>(in_.difference()); }
  std::pair<std::uint64_t, bool> mention() {
    const std::uint64_t coded = in_.number();
    last_tensor_ += static_cast<std::uint64_t>(unzigzag(coded >> 1));
    return {last_tensor_, (coded & 1) != 0};
  }

  void read_op() {
    const Call& call = calls_[in_.number()];
    Op& op = ops.emplace_back();
    op.record = {.name = call.op,
                 .site = call.site,
                 .scope = call.scope,
                 .device = call.device,
                 .cause = call.cause,
                 .phase = call.phase,
                 .thread = thread_,
                 .flops = call.flops,
                 .bytes = call.bytes,
                 .has_gpu_kernel = call.has_gpu_kernel};
    std::tie(op.record.begin, op.record.end) = interval();
    op.record.correlation = correlation();
    op.record.inputs.resize(in_.number());
    op.record.outputs.resize(in_.number());
    for (auto* arguments : {&op.record.inputs, &op.record.outputs}) {
      for (trace::Argument& argument : *arguments) {
        const auto [id, host] = mention();
        argument.host = host;
        op.ids.push_back(id);
      }
    }
    adopt_copies(op.record);
  }

  // An op is recorded when it ends, so its copies stand before it: those of the same call within its interval. Ops that
  // ran inside of it (a recomputed input) have taken theirs already.
  void adopt_copies(const OpRecord& op) {
    for (std::size_t i = copies.size(); i > 0 && copies[i - 1].record.begin >= op.begin; --i) {
      CopyRecord& copy = copies[i - 1].record;
      const bool same_call = copy.op_name == op.name && copy.site == op.site;
      if (copy.op < 0 && same_call && copy.end <= op.end) copy.op = static_cast<trace::OpIndex>(ops.size() - 1);
    }
  }

  void read_copy() {
    const Call& call = calls_[in_.number()];
    Copy& copy = copies.emplace_back();
    copy.record = {.op_name = call.op,
                   .site = call.site,
                   .scope = call.scope,
                   .to = call.device,
                   .placement = call.cause,
                   .thread = thread_};
    std::tie(copy.record.begin, copy.record.end) = interval();
    copy.record.correlation = correlation();
    copy.tensor = mention().first;
    copy.record.size = Bytes{in_.difference()};
    copy.record.from = in_.raw<Device>();
    copy.record.from_memory = static_cast<trace::Memory>(in_.byte());
    copy.record.to_memory = static_cast<trace::Memory>(in_.byte());
    copy.record.cause = static_cast<trace::CopyCause>(in_.byte());
    copy.record.synchronous = in_.byte() != 0;
  }

  void read_work() {
    trace::WorkRecord& record = work.emplace_back();
    record.correlation = correlation();
    record.kind = static_cast<trace::WorkKind>(in_.byte());
    record.engine = static_cast<trace::Engine>(in_.byte());
    record.device = in_.raw<Device>();
    record.stream = static_cast<std::int32_t>(in_.difference());
    std::tie(record.begin, record.end) = interval();
  }

  void read_scope() {
    trace::ScopeRecord& scope = scopes.emplace_back();
    scope.name = string_at(in_.number());
    scope.thread = thread_;
    scope.depth = static_cast<std::int32_t>(in_.difference());
    std::tie(scope.begin, scope.end) = interval();
  }

  void read_memory() {
    trace::MemorySample& sample = memory.emplace_back();
    sample.device = in_.raw<Device>();
    sample.at = interval().first;
    sample.allocated = Bytes{in_.difference()};
    sample.reserved = Bytes{in_.difference()};
  }

  std::uint32_t thread_;
  RecordLog::Reader in_;
  Tables& tables_;
  std::unordered_map<std::uint64_t, trace::TensorInfo>& tensors_;
  std::vector<trace::StringIndex> strings_;
  std::vector<Call> calls_;
  std::int64_t last_begin_ = 0;
  std::uint64_t last_correlation_ = 0;
  std::uint64_t last_tensor_ = 0;
};

struct Place {
  std::size_t thread, index;
};

// The records of all threads by begin time; threads and their own order break ties.
template <class Member, class Begin>
std::vector<Place> merged_order(const std::vector<Decoder>& threads, Member member, Begin begin) {
  std::vector<Place> order;
  for (std::size_t t = 0; t < threads.size(); ++t) {
    for (std::size_t i = 0; i < (threads[t].*member).size(); ++i) order.push_back({t, i});
  }
  std::stable_sort(order.begin(), order.end(), [&](const Place& a, const Place& b) {
    return begin((threads[a.thread].*member)[a.index]) < begin((threads[b.thread].*member)[b.index]);
  });
  return order;
}

// Gives tensors their indices, in order of first use.
class TensorTable {
 public:
  TensorTable(trace::Trace& trace, std::unordered_map<std::uint64_t, trace::TensorInfo>& infos)
      : trace_(trace), infos_(infos) {}

  trace::TensorIndex index(std::uint64_t id) {
    if (id == 0) return -1;
    const auto [entry, is_new] = indices_.try_emplace(id, static_cast<trace::TensorIndex>(trace_.tensors.size()));
    if (is_new) trace_.tensors.push_back(infos_[id]);
    return entry->second;
  }

 private:
  trace::Trace& trace_;
  std::unordered_map<std::uint64_t, trace::TensorInfo>& infos_;
  std::unordered_map<std::uint64_t, trace::TensorIndex> indices_;
};

void merge_ops_and_copies(std::vector<Decoder>& threads, TensorTable& tensors, trace::Trace& trace) {
  std::vector<std::vector<trace::OpIndex>> op_indices(threads.size());
  for (std::size_t t = 0; t < threads.size(); ++t) op_indices[t].resize(threads[t].ops.size());
  for (const Place& place :
       merged_order(threads, &Decoder::ops, [](const Decoder::Op& op) { return op.record.begin; })) {
    Decoder::Op& op = threads[place.thread].ops[place.index];
    std::size_t i = 0;
    for (trace::Argument& argument : op.record.inputs) argument.tensor = tensors.index(op.ids[i++]);
    for (trace::Argument& argument : op.record.outputs) argument.tensor = tensors.index(op.ids[i++]);
    op_indices[place.thread][place.index] = static_cast<trace::OpIndex>(trace.ops.size());
    trace.ops.push_back(std::move(op.record));
  }
  for (const Place& place :
       merged_order(threads, &Decoder::copies, [](const Decoder::Copy& copy) { return copy.record.begin; })) {
    Decoder::Copy& copy = threads[place.thread].copies[place.index];
    copy.record.tensor = tensors.index(copy.tensor);
    if (copy.record.op >= 0) copy.record.op = op_indices[place.thread][static_cast<std::size_t>(copy.record.op)];
    trace.copies.push_back(copy.record);
  }
}

// The host waits in copies that block it and in fetches: until the copy starts for earlier work, then for the copy.
void split_waits(trace::Trace& trace) {
  std::unordered_map<std::uint64_t, Nanoseconds> copy_begin;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::copy) copy_begin.try_emplace(work.correlation, work.begin);
  }
  for (CopyRecord& copy : trace.copies) {
    if (!copy.synchronous && copy.cause != trace::CopyCause::fetch) continue;
    const auto work = copy.correlation == 0 ? copy_begin.end() : copy_begin.find(copy.correlation);
    const Nanoseconds started = work == copy_begin.end() ? copy.begin : work->second;
    copy.drain = std::clamp(started - copy.begin, Nanoseconds(0), copy.end - copy.begin);
    copy.transfer = copy.end - copy.begin - copy.drain;
  }
}

}  // namespace

trace::Trace merge(std::span<const ThreadLog* const> logs) {
  trace::Trace trace;
  Tables tables(trace);
  std::unordered_map<std::uint64_t, trace::TensorInfo> infos;
  std::vector<Decoder> threads;
  threads.reserve(logs.size());
  for (const ThreadLog* log : logs) threads.emplace_back(*log, tables, infos).run();

  TensorTable tensors(trace, infos);
  merge_ops_and_copies(threads, tensors, trace);
  const auto begin = [](const auto& record) { return record.begin; };
  for (const Place& p : merged_order(threads, &Decoder::work, begin))
    trace.work.push_back(threads[p.thread].work[p.index]);
  for (const Place& p : merged_order(threads, &Decoder::scopes, begin)) {
    trace.scopes.push_back(threads[p.thread].scopes[p.index]);
  }
  const auto at = [](const trace::MemorySample& sample) { return sample.at; };
  for (const Place& p : merged_order(threads, &Decoder::memory, at)) {
    trace.memory.push_back(threads[p.thread].memory[p.index]);
  }
  split_waits(trace);
  return trace;
}

}  // namespace ferry::profiler
