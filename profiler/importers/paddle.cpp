// PaddlePaddle timelines: "schemaVersion": "1.0.1", names that end in "[1.234 ms]", "correlation id", threads
// "1234(C++)" and "1234(Python)". Times are whole microseconds, durations have decimals.
#include <algorithm>
#include <unordered_map>

#include "profiler/importers/chrome_events.h"
#include "profiler/importers/copy_names.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler::importers {
namespace {

// "conv2d[1.234 ms]" → "conv2d". Only a number and a unit are a duration: "split[0]" stays.
std::string_view without_duration(std::string_view name) {
  const std::size_t bracket = name.rfind('[');
  if (!name.ends_with("s]") || bracket == std::string_view::npos) return name;
  const std::string_view inside = name.substr(bracket + 1, name.size() - bracket - 2);
  const std::size_t digits = std::min(inside.find_first_not_of("0123456789."), inside.size());
  const std::string_view unit = inside.substr(std::min(inside.find_first_not_of(' ', digits), inside.size()));
  const bool is_duration = digits > 0 && (unit == "s" || unit == "ms" || unit == "us" || unit == "ns");
  return is_duration ? name.substr(0, bracket) : name;
}

// "1234(C++)" and "1234(Python)" are one thread.
std::string_view thread_number(std::string_view thread) { return thread.substr(0, thread.find('(')); }

class PaddleDialect : public ChromeDialect {
 public:
  explicit PaddleDialect(Activity& activity) : activity_(activity), tracks_(activity) {}

  void slice(const ChromeEvent& slice) override {
    ChromeEvent event = slice;
    event.name = renamed(event.name, without_duration);
    const std::string_view category = activity_.names[event.category];
    if (category == "CudaRuntime") return call(event);
    if (category == "Kernel") return static_cast<void>(gpu_slice(event, EventKind::kernel));
    if (category == "Memset") return static_cast<void>(gpu_slice(event, EventKind::memset));
    if (category == "Memcpy") return copy(event);
    const bool is_op = category == "Operator" || category == "OperatorInner";
    Event& added = host_slice(event, is_op ? EventKind::op : EventKind::annotation);
    if (event.call_stack >= 0 && !activity_.names[event.call_stack].empty()) added.detail = event.call_stack;
  }

  void metadata(const ChromeEvent&) override {}

  bool member(std::string_view key, JsonReader& reader) override {
    if (key == "deviceProperties") return read_gpus(reader, activity_), true;
    return false;
  }

 private:
  NameIndex renamed(NameIndex name, std::string_view (*shorten)(std::string_view)) {
    if (name < 0) return name;
    const std::string_view full = activity_.names[name], part = shorten(full);
    return part.size() == full.size() ? name : activity_.names.intern(part);
  }

  Event& host_slice(const ChromeEvent& event, EventKind kind) {
    return add_slice(activity_, event, kind, tracks_.thread(event.process, renamed(event.thread, thread_number)));
  }

  void call(const ChromeEvent& event) {
    Event& added = host_slice(event, EventKind::call);
    added.call = analysis::classify_call(activity_.names[event.name]);
  }

  Event& gpu_slice(const ChromeEvent& event, EventKind kind) {
    const std::int64_t device = std::clamp<std::int64_t>(number_in(activity_.names[event.process]), 0, 0x7fffffff);
    const std::int64_t stream = event.stream >= 0 ? event.stream : number_in(activity_.names[event.thread]);
    return add_slice(activity_, event, kind, tracks_.stream(static_cast<std::int32_t>(device), stream));
  }

  void copy(const ChromeEvent& event) {
    Event& added = gpu_slice(event, EventKind::copy);
    CopyDetail detail = copy_of_name(activity_.names[event.name]);
    detail.size = Bytes{std::max<std::int64_t>(event.bytes, 0)};
    add_copy(activity_, added, detail);
  }

  Activity& activity_;
  TrackTable tracks_;
};

bool recognizes(const Input& input) {
  if (!looks_like_chrome_events(input)) return false;
  const std::string_view head = input.head();
  const std::size_t at = head.find("\"schemaVersion\"");
  // PyTorch's is a number.
  if (at != std::string_view::npos) {
    const std::size_t value = head.find_first_not_of(": \t\r\n", at + 15);
    if (value != std::string_view::npos && head[value] == '"') return true;
  }
  return head.find("\"correlation id\"") != std::string_view::npos;
}

void read(const Input& input, Activity& activity) {
  activity.framework = analysis::Framework::paddle;
  PaddleDialect dialect(activity);
  read_chrome_events(input, activity, dialect);
}

}  // namespace

const Importer kPaddleImporter{"PaddlePaddle profiler", recognizes, read};

}  // namespace ferry::profiler::importers
