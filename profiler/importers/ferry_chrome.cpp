// The Chrome traces that ferry exports (`--format chrome`). Copies carry what the recorder said of them.
#include <algorithm>

#include "profiler/importers/chrome_events.h"
#include "profiler/importers/copy_names.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler::importers {
namespace {

RecordedClass class_of(std::string_view name) {
  if (name == "synchronous") return RecordedClass::synchronous;
  if (name == "asynchronous") return RecordedClass::asynchronous;
  if (name == "fetch") return RecordedClass::explicit_read;
  if (name == "transfer") return RecordedClass::explicit_transfer;
  return RecordedClass::none;
}

HostMemory memory_of(std::string_view name) {
  if (name == "pageable") return HostMemory::pageable;
  if (name == "pinned") return HostMemory::pinned;
  return HostMemory::unknown;
}

// Process 0 is the host, process 1 + N the GPU N; copy engines are tracks from 1,000,000 on.
class FerryDialect : public ChromeDialect {
 public:
  explicit FerryDialect(Activity& activity) : activity_(activity), tracks_(activity) {}

  void slice(const ChromeEvent& event) override {
    const std::string_view category = activity_.names[event.category];
    const std::int64_t process = number_in(activity_.names[event.process]);
    if (process > 0) {
      gpu_slice(event, static_cast<std::int32_t>(std::min<std::int64_t>(process - 1, 0x7ffffffe)), category == "copy");
    } else if (category == "copy") {
      copy(event);
    } else {
      host_slice(event, category == "scope" ? EventKind::annotation : EventKind::op);
    }
  }

  void metadata(const ChromeEvent& event) override {
    if (event.label < 0 || activity_.names[event.name] != "process_name") return;
    const std::int64_t process = number_in(activity_.names[event.process]);
    if (process <= 0 || process > 0x7fffffff) return;
    // "gpu:0 (sim:rtx2080ti, virtual time)"
    const std::string_view label = activity_.names[event.label];
    const std::size_t open = label.find('('), end = label.find_first_of(",)");
    std::string_view name = label;
    if (open != std::string_view::npos && end != std::string_view::npos && end > open)
      name = label.substr(open + 1, end - open - 1);
    activity_.gpus.push_back({static_cast<std::int32_t>(process - 1), std::string(name)});
    activity_.virtual_time = activity_.virtual_time || label.find("virtual time") != std::string_view::npos;
  }

  bool member(std::string_view, JsonReader&) override { return false; }

 private:
  void host_slice(const ChromeEvent& event, EventKind kind) {
    Event& added = add_slice(activity_, event, kind, tracks_.thread(event.process, event.thread));
    added.detail = event.line;
  }

  void gpu_slice(const ChromeEvent& event, std::int32_t device, bool is_copy) {
    const std::int64_t track = number_in(activity_.names[event.thread]);
    const std::int64_t stream = track >= 1'000'000 ? 999'999 - track : track;
    add_slice(activity_, event, is_copy ? EventKind::copy : EventKind::kernel, tracks_.stream(device, stream));
  }

  void copy(const ChromeEvent& event) {
    if (event.label >= 0) {  // no op encloses it
      ChromeEvent op = event;
      op.name = event.label;
      op.correlation = 0;
      host_slice(op, EventKind::op);
    }
    CopyDetail detail = copy_of_name(activity_.names[event.name]);
    detail.recorded = class_of(activity_.names[event.copy_class]);
    detail.memory = memory_of(activity_.names[event.memory]);
    detail.size = Bytes{std::max<std::int64_t>(event.bytes, 0)};
    detail.drain = Nanoseconds(event.drain_ns);
    detail.transfer = Nanoseconds(event.transfer_ns);
    Event& added = add_slice(activity_, event, EventKind::call, tracks_.thread(event.process, event.thread));
    added.call = detail.recorded == RecordedClass::synchronous ? CallClass::copy : CallClass::copy_async;
    add_copy(activity_, added, detail);
  }

  Activity& activity_;
  TrackTable tracks_;
};

bool recognizes(const Input& input) {
  return looks_like_chrome_events(input) && input.head().find("\"ferry_chrome_trace\"") != std::string_view::npos;
}

void read(const Input& input, Activity& activity) {
  activity.framework = analysis::Framework::ferry;
  FerryDialect dialect(activity);
  read_chrome_events(input, activity, dialect);
}

}  // namespace

const Importer kFerryChromeImporter{"ferry Chrome trace", recognizes, read};

}  // namespace ferry::profiler::importers
