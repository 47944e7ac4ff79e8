#include "profiler/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "profiler/summary.h"

namespace ferry::profiler {
namespace {

// Track ids of a device: streams by number, then the copy engines.
constexpr int kCopyEngines = 1'000'000;

int process_of(Device device) { return device.is_cpu() ? 0 : 1 + device.index; }

class Builder {
 public:
  explicit Builder(const trace::Trace& trace) : trace_(trace) {}

  Timeline build() {
    add_host();
    for (const trace::WorkRecord& work : trace_.work) add_work(work);
    sort_tracks();
    std::ranges::stable_sort(timeline_.spans, [](const Span& a, const Span& b) {
      return std::tuple(a.begin, b.end, a.kind) < std::tuple(b.begin, a.end, b.kind);
    });
    return std::move(timeline_);
  }

 private:
  std::size_t track(int process, int id, const std::string& name) {
    const auto [entry, is_new] = tracks_.try_emplace({process, id}, timeline_.tracks.size());
    if (is_new) timeline_.tracks.push_back({process, id, name});
    return entry->second;
  }
  std::size_t host_track(std::uint32_t thread) {
    return track(0, static_cast<int>(thread), fmt::format("Host thread {}", thread));
  }

  void add_host() {
    for (const trace::ScopeRecord& scope : trace_.scopes) {
      timeline_.spans.push_back({.kind = SpanKind::scope,
                                 .track = host_track(scope.thread),
                                 .name = trace_.string(scope.name),
                                 .begin = scope.begin,
                                 .end = scope.end});
    }
    for (const trace::OpRecord& op : trace_.ops) {
      timeline_.spans.push_back({.kind = SpanKind::op,
                                 .track = host_track(op.thread),
                                 .name = trace_.string(op.name),
                                 .begin = op.begin,
                                 .end = op.end,
                                 .correlation = op.correlation,
                                 .site = op.site,
                                 .scope = op.scope});
      if (op.correlation != 0) launched_.try_emplace(op.correlation, timeline_.spans.back());
    }
    for (std::size_t i = 0; i < trace_.copies.size(); ++i) {
      const trace::CopyRecord& copy = trace_.copies[i];
      const std::string name = fmt::format("GpuMemcpy{}:{}->{}", copy.synchronous ? "Sync" : "Async",
                                           device_label(trace_, copy.from), device_label(trace_, copy.to));
      timeline_.spans.push_back({.kind = SpanKind::copy,
                                 .track = host_track(copy.thread),
                                 .name = name,
                                 .begin = copy.begin,
                                 .end = copy.end,
                                 .correlation = copy.correlation,
                                 .site = copy.site,
                                 .scope = copy.scope,
                                 .size = copy.size,
                                 .synchronous = copy.synchronous,
                                 .copy = static_cast<std::int64_t>(i)});
      if (copy.correlation != 0) launched_.try_emplace(copy.correlation, timeline_.spans.back());
    }
  }

  void add_work(const trace::WorkRecord& work) {
    if (work.device.is_cpu()) return;
    const bool is_copy = work.kind == trace::WorkKind::copy;
    const auto cause = launched_.find(work.correlation);
    Span span = cause != launched_.end() ? cause->second : Span{.name = is_copy ? "copy" : "kernel"};
    span.kind = is_copy ? SpanKind::device_copy : SpanKind::kernel;
    span.begin = work.begin;
    span.end = work.end;
    span.correlation = work.correlation;
    span.track = is_copy ? engine_track(work) : stream_track(work);
    timeline_.spans.push_back(std::move(span));
  }

  std::size_t engine_track(const trace::WorkRecord& work) {
    const char* name = work.engine == trace::Engine::host_to_device   ? "Copy engine CPU->GPU"
                       : work.engine == trace::Engine::device_to_host ? "Copy engine GPU->CPU"
                                                                      : "Copies on the device";
    return track(process_of(work.device), kCopyEngines + static_cast<int>(work.engine), name);
  }

  std::size_t stream_track(const trace::WorkRecord& work) {
    std::string name = fmt::format("Stream {}", work.stream);
    for (const trace::DeviceInfo& info : trace_.devices) {
      const auto stream = static_cast<std::size_t>(work.stream);
      if (info.device == work.device && stream < info.streams.size()) name += " " + info.streams[stream];
    }
    return track(process_of(work.device), work.stream, name);
  }

  void sort_tracks() {
    std::vector<std::size_t> order(timeline_.tracks.size()), position(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {},
                      [&](std::size_t i) { return std::pair(timeline_.tracks[i].process, timeline_.tracks[i].id); });
    std::vector<Track> sorted;
    for (std::size_t i = 0; i < order.size(); ++i) {
      position[order[i]] = i;
      sorted.push_back(timeline_.tracks[order[i]]);
    }
    timeline_.tracks = std::move(sorted);
    for (Span& span : timeline_.spans) span.track = position[span.track];
  }

  const trace::Trace& trace_;
  Timeline timeline_;
  std::map<std::pair<int, int>, std::size_t> tracks_;
  std::unordered_map<std::uint64_t, Span> launched_;
};

}  // namespace

Timeline make_timeline(const trace::Trace& trace) { return Builder(trace).build(); }

}  // namespace ferry::profiler
