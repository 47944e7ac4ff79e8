#include "profiler/analysis_report/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "profiler/rules/grouping.h"

namespace ferry::profiler::analysis_report {
namespace {

using analysis::Event;
using analysis::EventKind;
using analysis::TraceIndex;
using analysis::Transfer;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(Nanoseconds time) {
  const std::int64_t ns = time.count();
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns / 1000), std::abs(ns % 1000));
}

// Processes: the host's threads, each GPU's streams, and the findings above all.
class PerfettoWriter {
 public:
  PerfettoWriter(const TraceIndex& index, std::ostream& out) : index_(index), out_(out) {}

  void write() {
    out_ << "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
    name_process(kFindings, "ferry analyze", -1);
    name_process(kHost, "Host", 0);
    const auto& tracks = index_.activity().tracks;
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      const std::int64_t process = process_of(tracks[i]);
      if (tracks[i].device >= 0) name_process(process, fmt::format("gpu:{}", tracks[i].device), process);
      event(fmt::format(R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": {}}})", process, i,
                        json_text(tracks[i].name)));
    }
    for (const Event& each : index_.activity().events) slice(each);
    for (const Transfer& transfer : index_.transfers()) {
      if (transfer.is_synchronous() && transfer.call >= 0) finding(transfer);
    }
    out_ << "\n]}\n";
  }

 private:
  static constexpr std::int64_t kHost = 1, kFindings = 2, kFirstGpu = 1000;

  void event(const std::string& text) {
    out_ << (first_ ? "\n{" : ",\n{") << text << "}";
    first_ = false;
  }
  void name_process(std::int64_t process, std::string_view name, std::int64_t order) {
    event(fmt::format(R"("ph": "M", "name": "process_name", "pid": {}, "tid": 0, "args": {{"name": {}}})", process,
                      json_text(name)));
    event(fmt::format(R"("ph": "M", "name": "process_sort_index", "pid": {}, "tid": 0, "args": {{"sort_index": {}}})",
                      process, order));
  }
  static std::int64_t process_of(const analysis::Track& track) {
    return track.device < 0 ? kHost : kFirstGpu + track.device;
  }

  void slice(const Event& each) {
    static constexpr const char* kCategories[] = {"op", "annotation", "frame", "call", "kernel", "copy", "memset"};
    const auto& track = index_.activity().tracks[static_cast<std::size_t>(each.track)];
    const std::string args = each.correlation == 0 ? "" : fmt::format("\"correlation\": {}", each.correlation);
    event(
        fmt::format(R"("ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
                    kCategories[static_cast<int>(each.kind)], json_text(index_.activity().name_of(each)),
                    process_of(track), each.track, microseconds(each.begin), microseconds(each.duration()), args));
  }

  void finding(const Transfer& transfer) {
    static constexpr const char* kRules[] = {"", "sync_copy", "pageable_async_copy", "scalar_readback"};
    const Event& call = index_.event(transfer.call);
    const Nanoseconds end = transfer.wait >= 0 ? index_.event(transfer.wait).end : call.end;
    std::string ops;
    for (const std::string_view op : index_.op_chain(transfer.call))
      ops += (ops.empty() ? "" : " > ") + std::string(op);
    const char* const rule = kRules[static_cast<int>(rules::kind_of(index_, transfer))];
    const bool out = transfer.direction == rules::Direction::device_to_host;
    event(fmt::format(
        R"("ph": "X", "cat": "finding", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"ops": {}, )"
        R"("frame": {}, "bytes": {}, "blocked_ns": {}, "drain_ns": {}, "copy_ns": {}}})",
        json_text(fmt::format("{} {}", rule, out ? "GPU->CPU" : "CPU->GPU")), kFindings, call.track,
        microseconds(call.begin), microseconds(end - call.begin), json_text(ops),
        json_text(index_.frame_of(transfer.call)), transfer.size.count, transfer.blocked.count(),
        transfer.drain.count(), transfer.copying().count()));
  }

  const TraceIndex& index_;
  std::ostream& out_;
  bool first_ = true;
};

}  // namespace

void write_perfetto(const TraceIndex& index, std::ostream& out) { PerfettoWriter(index, out).write(); }

}  // namespace ferry::profiler::analysis_report
