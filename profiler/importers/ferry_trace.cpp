// ferry's own recordings, as Profiler::write_trace saves them. What the recorder says of a copy is taken over.
//
// Records become events as they are read. Tables are written in alphabetical order and may come in any, so that names,
// sites and the order of events are settled at the end.
#include <array>
#include <optional>
#include <string>

#include "profiler/importers/fill_activity.h"
#include "profiler/importers/importer.h"
#include "profiler/importers/record_reader.h"
#include "profiler/importers/track_table.h"
#include "src/base/check.h"
#include "src/trace/trace_json.h"

namespace ferry::profiler::importers {
namespace {

struct Document {
  int version = 0;
  trace::Trace trace{};  // its tables stay empty: their records are taken one by one
};

void fields(auto& visit, Document& document) {
  visit("ferry_trace", document.version);
  fields(visit, document.trace);
}

// The indices into one table, whose length may be known only behind them. Of all that were met the worst is kept.
class IndicesInto {
 public:
  void met(std::int64_t index, const char* table, const char* field, const Element& record) {
    // -1, which is none, needs no row; what is less needs more rows than there can be.
    const std::uint64_t rows = static_cast<std::uint64_t>(index) + 1;
    if (rows <= rows_) return;
    rows_ = rows;
    worst_ = {index, table, field, record};
  }

  void check(const JsonReader& json, std::size_t rows) const {
    if (rows_ <= rows) return;
    json.fail_at(worst_.record.offset,
                 fmt::format("field '{}[{}].{}' is {}, which is no index into a table of {}", worst_.table,
                             worst_.record.index, worst_.field, worst_.index, rows));
  }

 private:
  struct Use {
    std::int64_t index = -1;
    const char* table = "";
    const char* field = "";
    Element record{};
  };

  std::uint64_t rows_ = 0;  // that the worst one needs
  Use worst_{};
};

// Tables of events, in the order in which their events stand: of slices with the same interval, the earlier encloses.
enum Part : std::uint8_t { kScopes, kOps, kCopies, kWork, kParts };

class RecordingReader {
 public:
  RecordingReader(const Input& input, Activity& activity)
      : input_(input), json_(input.open(), input.name()), records_(json_), activity_(activity), tracks_(activity) {}

  void read() {
    try {
      read_document();
      check_indices();
    } catch (const EndOfInput& end) {
      activity_.tolerated.truncated_at = static_cast<std::int64_t>(end.offset);
    } catch (const ParseError&) {
      // What another version changed may stand before its number, and says less.
      refuse_other_version();
      throw;
    }
    join_parts();
    name_events();
    order_tracks();
  }

 private:
  void read_document() {
    Document document;
    records_.object(document, [this](const char* name, auto& value) { read_member(name, value); });
    if (json_.next_type() != JsonReader::Type::end) json_.fail("expected the end of the file");
  }

  template <class T>
  void read_member(const char* name, T& value) {
    records_.field(name, value);
  }
  void read_member(const char* name, int& version) {
    json_.next_type();  // goes to its first byte
    const std::uint64_t offset = json_.offset();
    records_.field(name, version);
    if (version != trace::kTraceVersion) refuse(version, offset);
  }
  template <class T>
  void read_member(const char* name, std::vector<T>&) {
    begin_part(part_of(T{}));
    T record{};
    records_.elements(name, record, [this](const T& read, const Element& element) { take(read, element); });
  }

  [[noreturn]] void refuse(int version, std::uint64_t offset) const {
    json_.fail_at(offset, fmt::format("field 'ferry_trace' is version {}; this ferry reads version {}", version,
                                      trace::kTraceVersion));
  }

  void refuse_other_version() const {
    int version = trace::kTraceVersion;
    std::uint64_t offset = 0;
    try {
      JsonReader json(input_.open(), input_.name());
      json.begin_object();
      for (std::string_view key; json.next_key(key);) {
        if (key != "ferry_trace") {
          json.skip();
          continue;
        }
        json.next_type();
        offset = json.offset();
        RecordReader(json).field("ferry_trace", version);
        break;
      }
    } catch (const EndOfInput&) {
    } catch (const ParseError&) {
    }
    if (version != trace::kTraceVersion) refuse(version, offset);
  }

  static Part part_of(const trace::ScopeRecord&) { return kScopes; }
  static Part part_of(const trace::OpRecord&) { return kOps; }
  static Part part_of(const trace::CopyRecord&) { return kCopies; }
  static Part part_of(const trace::WorkRecord&) { return kWork; }
  template <class T>
  static Part part_of(const T&) {
    return kParts;
  }

  void begin_part(Part part) {
    parts_[part_] = std::move(activity_.events);
    activity_.events = {};
    part_ = part;
  }

  void take(const std::string& text, const Element&) { strings_.push_back(activity_.names.intern(text)); }
  void take(const trace::Site& site, const Element&) {
    sites_.push_back(activity_.names.intern(site.file + ":" + std::to_string(site.line)));
  }
  void take(const trace::TensorInfo&, const Element&) { ++tensors_; }
  void take(const trace::MemorySample&, const Element&) {}
  void take(const trace::DeviceInfo& info, const Element&) {
    if (info.device.is_cpu()) return;
    activity_.gpus.push_back({info.device.index, info.name});
    activity_.virtual_time = activity_.virtual_time || info.virtual_time;
  }

  void take(const trace::ScopeRecord& scope, const Element& element) {
    into_strings_.met(scope.name, "scopes", "name", element);
    host(EventKind::annotation, scope.thread, scope.name, scope.begin, scope.end);
  }

  void take(const trace::OpRecord& op, const Element& element) {
    ++ops_;
    into_strings_.met(op.name, "ops", "name", element);
    into_sites_.met(op.site, "ops", "site", element);
    into_strings_.met(op.scope, "ops", "scope", element);
    for (const trace::Argument& argument : op.inputs) into_tensors_.met(argument.tensor, "ops", "inputs", element);
    for (const trace::Argument& argument : op.outputs) into_tensors_.met(argument.tensor, "ops", "outputs", element);
    Event* const event = host(EventKind::op, op.thread, op.name, op.begin, op.end);
    if (event == nullptr) return;
    event->correlation = op.correlation;
    event->detail = op.site;
  }

  void take(const trace::CopyRecord& copy, const Element& element) {
    into_strings_.met(copy.op_name, "copies", "op_name", element);
    into_sites_.met(copy.site, "copies", "site", element);
    into_strings_.met(copy.scope, "copies", "scope", element);
    into_tensors_.met(copy.tensor, "copies", "tensor", element);
    into_ops_.met(copy.op, "copies", "op", element);
    // A copy that no op needed stands in an op of its own, named by what asked for it.
    if (copy.op < 0) {
      Event* const op = host(EventKind::op, copy.thread, copy.op_name, copy.begin, copy.end);
      if (op != nullptr) op->detail = copy.site;
    }
    const NameIndex name = activity_.names.intern(copy.synchronous ? "copy" : "copy_async");
    Event* const event = host(EventKind::call, copy.thread, name, copy.begin, copy.end);
    if (event == nullptr) return;
    event->call = copy.synchronous ? CallClass::copy : CallClass::copy_async;
    event->correlation = copy.correlation;
    add_copy(activity_, *event, detail_of(copy));
  }

  void take(const trace::WorkRecord& work, const Element&) {
    if (work.device.is_cpu()) return;
    const bool is_copy = work.kind == trace::WorkKind::copy;
    // Copy engines are streams of their own in ferry's traces: below those of the program.
    const std::int64_t stream = is_copy ? -1 - static_cast<std::int64_t>(work.engine) : work.stream;
    Event* const event = add_event(activity_, is_copy ? EventKind::copy : EventKind::kernel, work.begin, work.end,
                                   tracks_.stream(work.device.index, stream));
    if (event == nullptr) return;
    event->name = activity_.names.intern(is_copy ? "copy" : "kernel");
    event->correlation = work.correlation;
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

  // `name` of an op or annotation is an index into the recording's strings, and `detail` of an op one into its sites,
  // until name_events.
  Event* host(EventKind kind, std::uint32_t thread, std::int32_t name, Nanoseconds begin, Nanoseconds end) {
    const TrackIndex track =
        tracks_.thread(activity_.names.intern("0"), activity_.names.intern(std::to_string(thread)));
    Event* const event = add_event(activity_, kind, begin, end, track);
    if (event != nullptr) event->name = name;
    return event;
  }

  void check_indices() const {
    into_strings_.check(json_, strings_.size());
    into_sites_.check(json_, sites_.size());
    into_tensors_.check(json_, tensors_);
    into_ops_.check(json_, ops_);
  }

  void join_parts() {
    begin_part(kParts);
    std::size_t count = 0;
    for (const std::vector<Event>& part : parts_) count += part.size();
    activity_.events.reserve(count);
    for (std::vector<Event>& part : parts_) {
      activity_.events.insert(activity_.events.end(), part.begin(), part.end());
      part = {};
    }
  }

  void name_events() {
    bool all_known = true;
    for (Event& event : activity_.events) {
      if (event.kind != EventKind::op && event.kind != EventKind::annotation) continue;
      all_known = all_known && event.name < std::ssize(strings_);
      event.name = string(event.name);
      if (event.detail >= 0)
        event.detail = event.detail < std::ssize(sites_) ? sites_[static_cast<std::size_t>(event.detail)] : -1;
    }
    if (!all_known) activity_.warnings.push_back("the file ends before the names in it: ops go by their numbers");
  }

  NameIndex string(trace::StringIndex index) {
    if (index < 0) return activity_.names.intern("");
    if (index < std::ssize(strings_)) return strings_[static_cast<std::size_t>(index)];
    return activity_.names.intern(fmt::format("string {}", index));
  }

  // Tracks in the order of their first events, whichever table came first in the file.
  void order_tracks() {
    std::vector<TrackIndex> places(activity_.tracks.size(), -1);
    std::vector<analysis::Track> ordered;
    for (Event& event : activity_.events) {
      TrackIndex& place = places[static_cast<std::size_t>(event.track)];
      if (place < 0) {
        place = static_cast<TrackIndex>(ordered.size());
        ordered.push_back(std::move(activity_.tracks[static_cast<std::size_t>(event.track)]));
      }
      event.track = place;
    }
    activity_.tracks = std::move(ordered);
  }

  const Input& input_;
  JsonReader json_;
  RecordReader records_;
  Activity& activity_;
  TrackTable tracks_;
  std::array<std::vector<Event>, kParts + 1> parts_;
  Part part_ = kParts;
  std::vector<NameIndex> strings_, sites_;
  std::size_t tensors_ = 0, ops_ = 0;
  IndicesInto into_strings_, into_sites_, into_tensors_, into_ops_;
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
  activity.framework = analysis::Framework::ferry;
  RecordingReader(input, activity).read();
}

}  // namespace

const Importer kFerryTraceImporter{"ferry recording", recognizes, read};

}  // namespace ferry::profiler::importers
