// Traces of TensorFlow and JAX: processes "/host:CPU" and "/device:GPU:0", of which the lines "Stream #…" hold the
// GPU's work and the others repeat it by op or module. Calls stand on host threads with the "correlation_id" of their
// work; "memcpy_details" tells what was copied. Python frames begin with "$".
#include <algorithm>
#include <unordered_map>

#include "profiler/importers/chrome_events.h"
#include "profiler/importers/copy_names.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler::importers {
namespace {

using analysis::Track;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Processes may be named after their events, so that what events are is decided at the end.
class TensorFlowDialect : public ChromeDialect {
 public:
  explicit TensorFlowDialect(Activity& activity) : activity_(activity), tracks_(activity) {}

  void slice(const ChromeEvent& event) override {
    Event& added = add_slice(activity_, event, EventKind::op, tracks_.thread(event.process, event.thread));
    if (event.memcpy_details >= 0) {
      CopyDetail detail = copy_of_name(activity_.names[event.memcpy_details]);
      const CopyDetail named = copy_of_name(activity_.names[event.name]);
      if (named.direction != Direction::unknown) detail.direction = named.direction;
      asynchronous_.push_back(contains(activity_.names[event.memcpy_details], "async:1"));
      add_copy(activity_, added, detail);
    }
    if (event.step >= 0) added.kind = EventKind::annotation;
  }

  void metadata(const ChromeEvent& event) override {
    const std::string_view what = activity_.names[event.name];
    if (event.label < 0) return;
    if (what == "process_name") process_names_[event.process] = event.label;
    if (what == "thread_name")
      activity_.tracks[static_cast<std::size_t>(tracks_.thread(event.process, event.thread))].name =
          activity_.names[event.label];
  }

  bool member(std::string_view, JsonReader&) override { return false; }

  void finish() {
    std::vector<bool> is_dropped(activity_.tracks.size(), false);
    for (std::size_t i = 0; i < activity_.tracks.size(); ++i) is_dropped[i] = !settle(activity_.tracks[i]);
    std::erase_if(activity_.events,
                  [&](const Event& event) { return is_dropped[static_cast<std::size_t>(event.track)]; });
    bool has_calls = false;
    for (Event& event : activity_.events) {
      if (activity_.tracks[static_cast<std::size_t>(event.track)].device >= 0) {
        event.kind = event.detail >= 0 ? EventKind::copy : is_memset(event) ? EventKind::memset : EventKind::kernel;
      } else {
        settle_host(event);
        has_calls = has_calls || event.kind == EventKind::call;
      }
    }
    activity_.has_launches = has_calls;
  }

 private:
  bool is_memset(const Event& event) const { return contains(activity_.name_of(event), "emset"); }

  // Whether the track is a thread or a stream, and not another view of the same work.
  bool settle(Track& track) {
    const auto found = process_names_.find(track.process);
    const std::string_view process = found == process_names_.end() ? "" : activity_.names[found->second];
    const std::size_t gpu = process.find("/device:GPU:");
    if (gpu == std::string_view::npos) return !contains(process, "/device:");
    if (!contains(track.name, "Stream #")) return false;
    track.device =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(number_in(process.substr(gpu + 12)), 0, 0x7fffffff));
    track.stream = number_in(track.name.substr(track.name.find("Stream #")));
    add_gpu(track.device, process);
    return true;
  }

  void add_gpu(std::int32_t id, std::string_view name) {
    if (std::ranges::find(activity_.gpus, id, &analysis::Gpu::id) != activity_.gpus.end()) return;
    activity_.gpus.push_back({id, std::string(name)});
  }

  void settle_host(Event& event) {
    const std::string_view name = activity_.name_of(event);
    if (event.detail >= 0) {
      event.kind = EventKind::call;
      event.call = asynchronous_[static_cast<std::size_t>(event.detail)] ? CallClass::copy_async : CallClass::copy;
      return;
    }
    event.call = analysis::classify_call(name);
    if (event.call == CallClass::other && event.correlation != 0 && contains(name, "emcpy"))
      event.call = CallClass::copy_async;
    if (event.call != CallClass::other || event.correlation != 0) {
      event.kind = EventKind::call;
      if (event.call == CallClass::other) event.call = CallClass::launch;
    } else if (name.starts_with('$')) {
      event.kind = EventKind::frame;
    }
  }

  Activity& activity_;
  TrackTable tracks_;
  std::unordered_map<NameIndex, NameIndex> process_names_;
  std::vector<bool> asynchronous_;  // by copy
};

bool recognizes(const Input& input) {
  if (!looks_like_chrome_events(input)) return false;
  const std::string_view head = input.head();
  return contains(head, "/device:GPU:") || contains(head, "/host:CPU") || contains(head, "/device:TPU:");
}

bool is_jax(const Activity& activity) {
  // Any TensorFlow program runs ops through its own executors; JAX's names come from its Python side.
  for (std::size_t i = 0; i < activity.names.size(); ++i) {
    const std::string_view name = activity.names[static_cast<NameIndex>(i)];
    if (name.starts_with("PjitFunction") || contains(name, "jax.Array") || name.starts_with("$pjit.py")) return true;
  }
  return false;
}

void read(const Input& input, Activity& activity) {
  TensorFlowDialect dialect(activity);
  read_chrome_events(input, activity, dialect);
  dialect.finish();
  activity.framework = is_jax(activity) ? analysis::Framework::jax : analysis::Framework::tensorflow;
}

}  // namespace

const Importer kTensorFlowImporter{"TensorFlow or JAX profiler", recognizes, read};

}  // namespace ferry::profiler::importers
