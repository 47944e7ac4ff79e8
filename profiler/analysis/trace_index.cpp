#include "profiler/analysis/trace_index.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "profiler/analysis/frames.h"
#include "src/base/check.h"

namespace ferry::profiler::analysis {
namespace {

// Tools that write whole microseconds cut begins and durations: an inner slice may seem to end that much later.
constexpr Nanoseconds kCut{1000};

std::int64_t trailing_number(std::string_view text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const std::string_view digits = last == std::string_view::npos ? text : text.substr(last + 1);
  std::int64_t number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// "ProfilerStep#12", "ProfileStep#3", "step 7", "iteration_7", "train 7": a word for a step, and its number.
bool is_step_name(std::string_view name) {
  if (trailing_number(name) < 0) return false;
  std::string word;
  for (const char c : name.substr(0, name.find_last_not_of("0123456789") + 1)) {
    if (c >= 'A' && c <= 'Z') word += static_cast<char>(c + 32);
    if (c >= 'a' && c <= 'z') word += c;
  }
  return word == "step" || word == "iteration" || word == "iter" || word == "profilerstep" || word == "profilestep" ||
         word == "trainstep" || word == "trainingstep" || word == "train";
}

std::string known_steps(const std::vector<Step>& steps) {
  if (steps.empty()) return "it marks none";
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
  for (const Step& step : steps) {
    first = std::min(first, step.number);
    last = std::max(last, step.number);
  }
  return fmt::format("it marks {}, from {} to {}", steps.size(), first, last);
}

}  // namespace

TraceIndex::TraceIndex(Activity activity, std::optional<std::int64_t> step) : activity_(std::move(activity)) {
  FERRY_CHECK(activity_.events.size() < std::numeric_limits<EventIndex>::max(), ParseError, "{}: more than 2^31 events",
              activity_.source);
  find_ranges();
  find_parents();
  find_steps(step);
  find_launches();
  join_transfers(*this);
  measure_gpus();
}

void TraceIndex::find_ranges() {
  ranges_.assign(activity_.tracks.size(), {0, 0});
  const std::vector<Event>& events = activity_.events;
  for (std::size_t i = 0; i < events.size();) {
    std::size_t end = i + 1;
    while (end < events.size() && events[end].track == events[i].track) ++end;
    ranges_[static_cast<std::size_t>(events[i].track)] = {static_cast<EventIndex>(i), static_cast<EventIndex>(end)};
    i = end;
  }
}

void TraceIndex::find_parents() {
  parents_.assign(activity_.events.size(), -1);
  std::vector<EventIndex> open;
  for (std::size_t track = 0; track < activity_.tracks.size(); ++track) {
    open.clear();
    const bool is_host = activity_.tracks[track].device < 0;
    for (EventIndex i = ranges_[track].first; i < ranges_[track].second; ++i) {
      const Event& next = event(i);
      while (!open.empty() && event(open.back()).end <= next.begin &&
             // An empty slice at the very begin of an empty one is inside of it.
             !(event(open.back()).begin == next.begin && event(open.back()).end == next.end))
        open.pop_back();
      if (!open.empty()) {
        parents_[static_cast<std::size_t>(i)] = open.back();
        if (next.end > event(open.back()).end + kCut) ++counts_.overlapping;
      }
      open.push_back(i);
    }
    if (!is_host) std::fill(parents_.begin() + ranges_[track].first, parents_.begin() + ranges_[track].second, -1);
  }
  // Not one inside a call, as no call is made by what it contains: from there the way up would lead to the call again.
  const auto is_inside_a_call = [&](std::size_t i) {
    EventIndex at = parents_[i];
    while (at >= 0 && event(at).kind != EventKind::call) at = parents_[static_cast<std::size_t>(at)];
    return at >= 0;
  };
  for (std::size_t i = 0; i < activity_.events.size(); ++i) {
    const Event& each = activity_.events[i];
    if (each.kind == EventKind::op && each.external != 0 && !is_inside_a_call(i))
      external_.push_back({each.external, static_cast<EventIndex>(i)});
  }
  // Of ops with one id (a wrapper and what it wraps) the first is the outer one.
  std::stable_sort(external_.begin(), external_.end(), [](auto a, auto b) { return a.first < b.first; });
}

void TraceIndex::find_steps(std::optional<std::int64_t> step) {
  window_ = {Nanoseconds::max(), Nanoseconds::min()};
  for (const Event& each : activity_.events) {
    window_.begin = std::min(window_.begin, each.begin);
    window_.end = std::max(window_.end, each.end);
    if (each.kind != EventKind::annotation || !is_step_name(activity_.name_of(each))) continue;
    steps_.push_back({trailing_number(activity_.name_of(each)), {each.begin, each.end}});
  }
  if (activity_.events.empty()) window_ = {};
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.time.begin < b.time.begin; });
  if (!step) return;
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const Step& each) { return each.number == *step; });
  FERRY_CHECK(found != steps_.end(), InvalidArgument, "{}: the trace has no step {}; {}", activity_.source, *step,
              known_steps(steps_));
  const Step only = *found;
  steps_ = {only};
  window_ = only.time;
}

void TraceIndex::find_launches() {
  for (std::size_t i = 0; i < activity_.events.size(); ++i) {
    const Event& each = activity_.events[i];
    if (!is_gpu_work(each.kind) && each.correlation != 0)
      launches_.push_back({each.correlation, static_cast<EventIndex>(i)});
  }
  std::stable_sort(launches_.begin(), launches_.end(), [](auto a, auto b) { return a.first < b.first; });
}

EventIndex TraceIndex::call_of(std::uint64_t correlation) const {
  if (correlation == 0) return -1;
  const auto found = std::lower_bound(launches_.begin(), launches_.end(), correlation,
                                      [](const auto& launch, std::uint64_t id) { return launch.first < id; });
  return found != launches_.end() && found->first == correlation ? found->second : -1;
}

EventIndex TraceIndex::parent(EventIndex index) const {
  const EventIndex enclosing = parents_[static_cast<std::size_t>(index)];
  const Event& each = event(index);
  if (each.kind != EventKind::call || each.external == 0) return enclosing;
  for (EventIndex at = enclosing; at >= 0; at = parents_[static_cast<std::size_t>(at)]) {
    if (event(at).kind == EventKind::op) return enclosing;
  }
  const auto found = std::lower_bound(external_.begin(), external_.end(), each.external,
                                      [](const auto& op, std::uint32_t id) { return op.first < id; });
  return found != external_.end() && found->first == each.external ? found->second : enclosing;
}

EventIndex TraceIndex::op_of(EventIndex index) const {
  EventIndex at = index;
  while (at >= 0 && event(at).kind != EventKind::op) at = parent(at);
  if (at < 0) return -1;
  for (EventIndex outer = parent(at); outer >= 0 && event(outer).kind == EventKind::op; outer = parent(outer))
    at = outer;
  return at;
}

std::vector<std::string_view> TraceIndex::op_chain(EventIndex index) const {
  std::vector<std::string_view> chain;
  for (EventIndex at = index; at >= 0; at = parent(at)) {
    if (event(at).kind == EventKind::op) chain.push_back(name(at));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::string_view TraceIndex::frame_of(EventIndex index) const {
  for (EventIndex at = index; at >= 0; at = parent(at)) {
    if (event(at).kind == EventKind::frame && is_user_frame(name(at))) return name(at);
  }
  for (EventIndex at = index; at >= 0; at = parent(at)) {
    if (event(at).kind != EventKind::op || event(at).detail < 0) continue;
    const std::string_view frame = user_frame_of_stack(activity_.names[event(at).detail]);
    if (!frame.empty()) return frame;
  }
  return {};
}

EventIndex TraceIndex::slice_at(TrackIndex track, Nanoseconds time) const {
  const auto [first, last] = range(track);
  const auto begin = activity_.events.begin() + first, end = activity_.events.begin() + last;
  const auto after = std::upper_bound(begin, end, time, [](Nanoseconds t, const Event& e) { return t < e.begin; });
  if (after == begin) return -1;
  EventIndex at = static_cast<EventIndex>(after - activity_.events.begin()) - 1;
  while (at >= 0 && event(at).end <= time) at = parents_[static_cast<std::size_t>(at)];
  return at;
}

bool TraceIndex::is_claimed(EventIndex wait) const {
  return std::binary_search(claimed_.begin(), claimed_.end(), wait);
}

void TraceIndex::measure_gpus() {
  for (std::size_t track = 0; track < activity_.tracks.size(); ++track) {
    const std::int32_t device = activity_.tracks[track].device;
    if (device < 0) continue;
    auto found = std::find_if(gpus_.begin(), gpus_.end(), [&](const GpuUse& gpu) { return gpu.device == device; });
    if (found == gpus_.end()) found = gpus_.insert(gpus_.end(), GpuUse{.device = device});
    for (EventIndex i = ranges_[track].first; i < ranges_[track].second; ++i) {
      const Event& work = event(i);
      if (work.begin > window_.end || work.end < window_.begin) continue;
      found->kernels += work.kind == EventKind::kernel;
      const Interval within{std::max(work.begin, window_.begin), std::min(work.end, window_.end)};
      // Tools that cut times leave kernels of no length.
      if (within.begin < within.end) found->busy.push_back(within);
    }
  }
  std::sort(gpus_.begin(), gpus_.end(), [](const GpuUse& a, const GpuUse& b) { return a.device < b.device; });
  for (GpuUse& gpu : gpus_) {
    std::sort(gpu.busy.begin(), gpu.busy.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::vector<Interval> apart;
    for (const Interval& each : gpu.busy) {
      if (!apart.empty() && each.begin <= apart.back().end) {
        apart.back().end = std::max(apart.back().end, each.end);
      } else {
        apart.push_back(each);
      }
    }
    gpu.busy = std::move(apart);
    for (const Interval& each : gpu.busy) gpu.total += each.end - each.begin;
  }
  std::erase_if(gpus_, [](const GpuUse& gpu) { return gpu.busy.empty() && gpu.kernels == 0; });
}

}  // namespace ferry::profiler::analysis
