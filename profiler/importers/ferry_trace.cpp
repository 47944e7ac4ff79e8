// ferry's own recordings, as Profiler::write_trace saves them. What the recorder says of a copy is taken over.
#include <string>

#include "profiler/importers/importer.h"
#include "profiler/importers/track_table.h"
#include "src/trace/trace_json.h"

namespace ferry::profiler::importers {
namespace {

using analysis::Activity;
using analysis::CallClass;
using analysis::CopyDetail;
using analysis::Direction;
using analysis::Event;
using analysis::EventKind;
using analysis::HostMemory;
using analysis::RecordedClass;

class TraceConverter {
 public:
  TraceConverter(const trace::Trace& trace, Activity& activity)
      : trace_(trace), activity_(activity), tracks_(activity) {}

  void convert() {
    add_devices();
    for (const trace::ScopeRecord& scope : trace_.scopes)
      host(EventKind::annotation, scope.thread, trace_.string(scope.name), scope.begin, scope.end);
    for (const trace::OpRecord& op : trace_.ops) {
      Event& event = host(EventKind::op, op.thread, trace_.string(op.name), op.begin, op.end);
      event.correlation = op.correlation;
      event.detail = line(op.site);
    }
    for (const trace::CopyRecord& copy : trace_.copies) add_copy(copy);
    for (const trace::WorkRecord& work : trace_.work) add_work(work);
  }

 private:
  void add_devices() {
    for (const trace::DeviceInfo& info : trace_.devices) {
      if (info.device.is_cpu()) continue;
      activity_.gpus.push_back({info.device.index, info.name});
      activity_.virtual_time = activity_.virtual_time || info.virtual_time;
    }
  }

  analysis::NameIndex line(trace::SiteIndex index) {
    if (index < 0) return -1;
    const trace::Site& site = trace_.sites[static_cast<std::size_t>(index)];
    return activity_.names.intern(site.file + ":" + std::to_string(site.line));
  }

  Event& host(EventKind kind, std::uint32_t thread, const std::string& name, Nanoseconds begin, Nanoseconds end) {
    Event& event = activity_.events.emplace_back();
    event.kind = kind;
    event.name = activity_.names.intern(name);
    event.track = tracks_.thread(activity_.names.intern("0"), activity_.names.intern(std::to_string(thread)));
    event.begin = begin;
    event.end = end;
    return event;
  }

  void add_copy(const trace::CopyRecord& copy) {
    // A copy that no op needed stands in an op of its own, named by what asked for it.
    if (copy.op < 0)
      host(EventKind::op, copy.thread, trace_.string(copy.op_name), copy.begin, copy.end).detail = line(copy.site);
    Event& event = host(EventKind::call, copy.thread, copy.synchronous ? "copy" : "copy_async", copy.begin, copy.end);
    event.call = copy.synchronous ? CallClass::copy : CallClass::copy_async;
    event.correlation = copy.correlation;
    event.detail = static_cast<std::int32_t>(activity_.copies.size());
    activity_.copies.push_back(detail_of(copy));
  }

  static CopyDetail detail_of(const trace::CopyRecord& copy) {
    CopyDetail detail;
    const bool from_host = copy.from.is_cpu(), to_host = copy.to.is_cpu();
    detail.direction = from_host ? (to_host ? Direction::host_to_host : Direction::host_to_device)
                                 : (to_host ? Direction::device_to_host : Direction::device_to_device);
    const trace::Memory memory = from_host ? copy.from_memory : copy.to_memory;
    if (memory == trace::Memory::pageable) detail.memory = HostMemory::pageable;
    if (memory == trace::Memory::pinned) detail.memory = HostMemory::pinned;
    detail.recorded = copy.cause == trace::CopyCause::fetch      ? RecordedClass::explicit_read
                      : copy.cause == trace::CopyCause::transfer ? RecordedClass::explicit_transfer
                      : copy.synchronous                         ? RecordedClass::synchronous
                                                                 : RecordedClass::asynchronous;
    detail.size = copy.size;
    detail.drain = copy.drain;
    detail.transfer = copy.transfer;
    return detail;
  }

  void add_work(const trace::WorkRecord& work) {
    if (work.device.is_cpu()) return;
    const bool is_copy = work.kind == trace::WorkKind::copy;
    // Copy engines are streams of their own in ferry's traces: below those of the program.
    const std::int64_t stream = is_copy ? -1 - static_cast<std::int64_t>(work.engine) : work.stream;
    Event& event = activity_.events.emplace_back();
    event.kind = is_copy ? EventKind::copy : EventKind::kernel;
    event.name = activity_.names.intern(is_copy ? "copy" : "kernel");
    event.track = tracks_.stream(work.device.index, stream);
    event.begin = work.begin;
    event.end = work.end;
    event.correlation = work.correlation;
  }

  const trace::Trace& trace_;
  Activity& activity_;
  TrackTable tracks_;
};

// The mark may stand behind the copies, which can be long; the first keys are then these.
bool recognizes(const Input& input) {
  std::string_view head = input.head();
  if (!head.starts_with('{')) return false;
  const std::string_view first = head.substr(0, 4096);
  return head.find("\"ferry_trace\"") != std::string_view::npos ||
         (first.find("\"begin\"") != std::string_view::npos && first.find("\"copies\"") != std::string_view::npos);
}

void read(const Input& input, Activity& activity) {
  std::string text;
  const std::unique_ptr<ByteSource> source = input.open();
  for (std::string part(std::size_t{1} << 20, '\0');;) {
    const std::size_t got = source->read(part.data(), part.size());
    if (got == 0) break;
    text.append(part, 0, got);
  }
  activity.framework = analysis::Framework::ferry;
  TraceConverter(trace::read_json(text, input.name()), activity).convert();
}

}  // namespace

const Importer kFerryTraceImporter{"ferry recording", recognizes, read};

}  // namespace ferry::profiler::importers
