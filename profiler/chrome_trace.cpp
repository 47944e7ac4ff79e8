#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unordered_map>

#include "profiler/exporters.h"
#include "profiler/format.h"
#include "profiler/timeline.h"

namespace ferry::profiler {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Trace event timestamps are microseconds.
std::string microseconds(Nanoseconds time) {
  const std::int64_t ns = time.count();
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns / 1000), std::abs(ns % 1000));
}

class Writer {
 public:
  Writer(const trace::Trace& trace, std::ostream& out) : trace_(trace), timeline_(make_timeline(trace)), out_(out) {}

  void write() {
    out_ << "{\"ferry_chrome_trace\": 1, \"displayTimeUnit\": \"ns\", \"traceEvents\": [";
    write_metadata();
    for (const Span& span : timeline_.spans) write_span(span);
    write_flows();
    write_counters();
    out_ << "\n]}\n";
  }

 private:
  void event(const std::string& text) {
    out_ << (first_ ? "\n{" : ",\n{") << text << "}";
    first_ = false;
  }

  void write_metadata() {
    std::vector<int> processes;
    for (const Track& track : timeline_.tracks) processes.push_back(track.process);
    for (const trace::MemorySample& sample : trace_.memory) processes.push_back(process_of(sample.device));
    std::ranges::sort(processes);
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    for (const int process : processes) {
      metadata("process_name", process, 0, "name", quoted(process_name(process)));
      metadata("process_sort_index", process, 0, "sort_index", std::to_string(process));
    }
    for (const Track& track : timeline_.tracks) {
      metadata("thread_name", track.process, track.id, "name", quoted(track.name));
      metadata("thread_sort_index", track.process, track.id, "sort_index", std::to_string(track.id));
    }
  }

  void metadata(const char* kind, int process, int thread, const char* key, const std::string& value) {
    event(fmt::format(R"("ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"{}": {}}})", kind, process, thread,
                      key, value));
  }

  static int process_of(Device device) { return device.is_cpu() ? 0 : 1 + device.index; }

  std::string process_name(int process) const {
    for (const trace::DeviceInfo& info : trace_.devices) {
      if (process_of(info.device) != process) continue;
      const std::string time = info.virtual_time ? ", virtual time" : "";
      return process == 0 ? "Host" : fmt::format("{} ({}{})", to_string(info.device), info.name, time);
    }
    return process == 0 ? "Host" : fmt::format("gpu:{}", process - 1);
  }

  void write_span(const Span& span) {
    static constexpr const char* kCategories[] = {"scope", "op", "copy", "kernel", "copy"};
    const Track& track = timeline_.tracks[span.track];
    std::string args;
    const auto add = [&](const char* key, const std::string& value) {
      args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", key, value);
    };
    if (span.site >= 0) add("line", quoted(site_text(trace_, span.site)));
    if (span.scope >= 0) add("scope", quoted(trace_.string(span.scope)));
    if (span.kind == SpanKind::copy || span.kind == SpanKind::device_copy)
      add("bytes", std::to_string(span.size.count));
    if (span.correlation != 0) add("correlation", std::to_string(span.correlation));
    if (span.kind == SpanKind::copy) add_copy(trace_.copies[static_cast<std::size_t>(span.copy)], add);
    event(
        fmt::format(R"("ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
                    kCategories[static_cast<int>(span.kind)], quoted(span.name), track.process, track.id,
                    microseconds(span.begin), microseconds(span.end - span.begin), args));
  }

  // What the recorder said of a copy, for programs that read the trace: only the name would be left of it.
  template <class Add>
  void add_copy(const trace::CopyRecord& copy, const Add& add) {
    static constexpr const char* kMemory[] = {"device", "pageable", "pinned"};
    const char* const implicit = copy.synchronous ? "synchronous" : "asynchronous";
    add("class", quoted(copy.cause == trace::CopyCause::fetch      ? "fetch"
                        : copy.cause == trace::CopyCause::transfer ? "transfer"
                                                                   : implicit));
    add("memory", quoted(kMemory[static_cast<int>(copy.from.is_cpu() ? copy.from_memory : copy.to_memory)]));
    add("drain_ns", std::to_string(copy.drain.count()));
    add("transfer_ns", std::to_string(copy.transfer.count()));
    if (copy.op < 0) add("name", quoted(trace_.string(copy.op_name)));
  }

  // An arrow from the call to each piece of work it enqueued. It leaves the innermost span at its time: an op's
  // launch comes after the copies of its inputs, so that its last moment is the op's own.
  void write_flows() {
    std::unordered_map<std::uint64_t, const Span*> launches;
    for (const Span& span : timeline_.spans) {
      if (span.correlation != 0 && (span.kind == SpanKind::op || span.kind == SpanKind::copy)) {
        launches.try_emplace(span.correlation, &span);
      }
    }
    std::int64_t id = 0;
    for (const Span& work : timeline_.spans) {
      if (work.kind != SpanKind::kernel && work.kind != SpanKind::device_copy) continue;
      const auto launch = launches.find(work.correlation);
      if (launch == launches.end()) continue;
      const Span& from = *launch->second;
      const Nanoseconds wanted = from.kind == SpanKind::op ? from.end - Nanoseconds(1) : from.begin;
      const Nanoseconds at = std::max(from.begin, std::min(wanted, work.begin));
      flow("s", ++id, from, at, "");
      flow("f", id, work, work.begin, R"(, "bp": "e")");
    }
  }

  void flow(const char* phase, std::int64_t id, const Span& span, Nanoseconds at, const char* binding) {
    const Track& track = timeline_.tracks[span.track];
    event(fmt::format(R"("ph": "{}", "cat": "launch", "name": "launch", "id": {}, "pid": {}, "tid": {}, "ts": {}{})",
                      phase, id, track.process, track.id, microseconds(at), binding));
  }

  void write_counters() {
    for (const trace::MemorySample& sample : trace_.memory) {
      event(fmt::format(
          R"("ph": "C", "name": "memory", "pid": {}, "ts": {}, "args": {{"allocated": {}, "reserved": {}}})",
          process_of(sample.device), microseconds(sample.at), sample.allocated.count, sample.reserved.count));
    }
  }

  const trace::Trace& trace_;
  Timeline timeline_;
  std::ostream& out_;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(const trace::Trace& trace, std::ostream& out) { Writer(trace, out).write(); }

}  // namespace ferry::profiler
