// PyTorch profiler traces of all generations, and Chrome traces of unknown origin, whose slices are then ops of the
// host.
//
// Generations differ in the words for categories ("Operator" and "cpu_op"), in tids ("25738", 25738, "stream 7"), in
// the units of times (integer and decimal microseconds, absolute or since baseTimeNanoseconds) and in what "External
// id" means: from 2022 to early 2024 it repeats the correlation of calls, and is then no link to an op.
#include <unordered_map>

#include "profiler/importers/chrome_events.h"
#include "profiler/importers/copy_names.h"
#include "profiler/importers/decimal.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler::importers {
namespace {

enum class Category : std::uint8_t { op, annotation, frame, call, kernel, copy, memset, wait_record, ignored };

Category category_of(std::string_view text) {
  static const std::unordered_map<std::string_view, Category> kKnown = {
      {"cpu_op", Category::op},
      {"Operator", Category::op},
      {"user_annotation", Category::annotation},
      {"python_function", Category::frame},
      {"cuda_runtime", Category::call},
      {"cuda_driver", Category::call},
      {"Runtime", Category::call},
      {"kernel", Category::kernel},
      {"Kernel", Category::kernel},
      {"gpu_memcpy", Category::copy},
      {"Memcpy", Category::copy},
      {"gpu_memset", Category::memset},
      {"Memset", Category::memset},
      {"cuda_sync", Category::wait_record},
      {"gpu_user_annotation", Category::ignored},
      {"cpu_instant_event", Category::ignored},
      {"overhead", Category::ignored},
      {"Trace", Category::ignored},
      {"cuda_profiler_range", Category::ignored},
  };
  const auto found = kKnown.find(text);
  if (found != kKnown.end()) return found->second;
  if (text.ends_with("_runtime") || text.ends_with("_driver")) return Category::call;
  return Category::op;
}

class KinetoDialect : public ChromeDialect {
 public:
  explicit KinetoDialect(Activity& activity) : activity_(activity), tracks_(activity) {}

  void slice(const ChromeEvent& event) override {
    switch (category(event.category)) {
      case Category::op:
        return host_slice(event, is_region(event.name) ? EventKind::annotation : EventKind::op);
      case Category::annotation:
        return host_slice(event, EventKind::annotation);
      case Category::frame:
        return host_slice(event, EventKind::frame);
      case Category::call:
        return call(event);
      case Category::kernel:
        gpu_slice(event, EventKind::kernel);
        return;
      case Category::copy:
        return copy(event);
      case Category::memset:
        gpu_slice(event, EventKind::memset);
        return;
      case Category::wait_record:
        return wait_record(event);
      case Category::ignored:
        return;
    }
  }

  void metadata(const ChromeEvent& event) override {
    if (event.label < 0 || activity_.names[event.name] != "thread_name") return;
    thread_names_[{event.process, event.thread}] = event.label;
  }

  bool member(std::string_view key, JsonReader& reader) override {
    if (key == "deviceProperties") return read_gpus(reader, activity_), true;
    if (key == "distributedInfo") return read_rank(reader, activity_), true;
    return false;
  }

  void name_threads() {
    for (analysis::Track& track : activity_.tracks) {
      const auto found = thread_names_.find({track.process, track.thread});
      if (track.device < 0 && found != thread_names_.end()) track.name = activity_.names[found->second];
    }
  }

 private:
  struct PairHash {
    std::size_t operator()(const std::pair<NameIndex, NameIndex>& pair) const {
      return std::hash<std::int64_t>{}(std::int64_t{pair.first} << 32 | static_cast<std::uint32_t>(pair.second));
    }
  };

  Category category(NameIndex name) {
    if (name < 0) return Category::op;
    const std::size_t index = static_cast<std::size_t>(name);
    if (index >= categories_.size()) categories_.resize(index + 1, -1);
    if (categories_[index] < 0) categories_[index] = static_cast<std::int8_t>(category_of(activity_.names[name]));
    return static_cast<Category>(categories_[index]);
  }

  // The first generation has no category for "ProfilerStep#17" and "Optimizer.step#SGD.step".
  bool is_region(NameIndex name) const { return activity_.names[name].find('#') != std::string_view::npos; }
  bool is_number(NameIndex name) { return integer(activity_.names[name]).has_value(); }

  Event& host_event(const ChromeEvent& event, EventKind kind) {
    if (!is_number(event.process)) ++activity_.tolerated.text_ids;
    return add_slice(activity_, event, kind, tracks_.thread(event.process, event.thread));
  }

  void host_slice(const ChromeEvent& event, EventKind kind) {
    Event& added = host_event(event, kind);
    added.correlation = 0;
    // Empty stacks are written as "".
    if (event.call_stack >= 0 && !activity_.names[event.call_stack].empty()) added.detail = event.call_stack;
  }

  void call(const ChromeEvent& event) {
    Event& added = host_event(event, EventKind::call);
    added.call = analysis::classify_call(activity_.names[event.name]);
    if (added.external == event.correlation) added.external = 0;
    if (added.call != CallClass::copy && added.call != CallClass::copy_async) return;
    // ROCm's calls say what they copy; CUDA's driver calls say the direction by their name.
    CopyDetail detail = copy_of_name(activity_.names[event.name]);
    if (event.kind >= 0) detail.direction = direction_of_kind(activity_.names[event.kind]);
    if (event.bytes >= 0) detail.size = Bytes{event.bytes};
    detail.source = event.source;
    detail.destination = event.destination;
    add_copy(activity_, added, detail);
  }

  void wait_record(const ChromeEvent& event) {
    // CUPTI's mark of no stream and of no event, as the widths of its fields write them.
    constexpr std::int64_t kNone = 0xffffffff;
    const std::int64_t stream = event.waited_stream >= 0 ? event.waited_stream : event.stream;
    activity_.waits.push_back({event.correlation, stream < kNone ? stream : -1,
                               event.waited_record < static_cast<std::uint64_t>(kNone) ? event.waited_record : 0});
  }

  Event& gpu_slice(const ChromeEvent& event, EventKind kind) {
    if (!is_number(event.process)) ++activity_.tolerated.text_ids;
    std::int64_t device = event.device, stream = event.stream;
    if (device < 0) device = number_in(activity_.names[event.process]);
    if (stream < 0) stream = number_in(activity_.names[event.thread]);
    const auto device_id = static_cast<std::int32_t>(device < 0 || device > 0x7fffffff ? 0 : device);
    return add_slice(activity_, event, kind, tracks_.stream(device_id, stream));
  }

  void copy(const ChromeEvent& event) {
    Event& added = gpu_slice(event, EventKind::copy);
    CopyDetail detail = copy_of_name(activity_.names[event.name]);
    if (detail.direction == Direction::unknown && event.kind >= 0)
      detail.direction = copy_of_name(activity_.names[event.kind]).direction;
    detail.size = Bytes{std::max<std::int64_t>(event.bytes, 0)};
    add_copy(activity_, added, detail);
  }

  Activity& activity_;
  TrackTable tracks_;
  std::vector<std::int8_t> categories_;  // by name; -1: not asked yet
  std::unordered_map<std::pair<NameIndex, NameIndex>, NameIndex, PairHash> thread_names_;
};

void read(const Input& input, Activity& activity) {
  activity.framework = analysis::Framework::pytorch;
  KinetoDialect dialect(activity);
  read_chrome_events(input, activity, dialect);
  dialect.name_threads();
}

}  // namespace

const Importer kKinetoImporter{"PyTorch profiler", looks_like_chrome_events, read};

}  // namespace ferry::profiler::importers
