#include "profiler/analysis_report/views.h"

#include <algorithm>

namespace ferry::profiler::analysis_report {
namespace {

using analysis::Event;
using analysis::EventIndex;
using analysis::EventKind;
using analysis::Interval;
using analysis::Transfer;

constexpr std::size_t kMostSlices = 400;  // of a track
constexpr Nanoseconds kLeastMargin{20'000};

// What belongs to the copy that a finding shows as its longest.
struct Shown {
  EventIndex call = -1, wait = -1, work = -1;

  bool contains(EventIndex event) const { return event >= 0 && (event == call || event == wait || event == work); }
};

Shown shown_by(const TraceIndex& index, const Finding& finding) {
  for (const Transfer& transfer : index.transfers()) {
    if (transfer.call == finding.worst || (transfer.call < 0 && transfer.work == finding.worst))
      return {transfer.call, transfer.wait, transfer.work};
  }
  return {.call = finding.worst};
}

Interval window_of(const TraceIndex& index, const Shown& shown) {
  Interval window{Nanoseconds::max(), Nanoseconds::min()};
  for (const EventIndex event : {shown.call, shown.wait, shown.work}) {
    if (event < 0) continue;
    window.begin = std::min(window.begin, index.event(event).begin);
    window.end = std::max(window.end, index.event(event).end);
  }
  const Nanoseconds margin = std::max(kLeastMargin, (window.end - window.begin) / 3);
  return {window.begin - margin, window.end + margin};
}

int level_of(const TraceIndex& index, EventIndex event) {
  int level = 0;
  for (EventIndex at = index.parent(event); at >= 0; at = index.parent(at)) ++level;
  return level;
}

void keep_longest(ViewTrack& track, std::int64_t& left_out) {
  if (track.slices.size() <= kMostSlices) return;
  std::ranges::stable_sort(track.slices, [](const ViewSlice& a, const ViewSlice& b) {
    return std::pair(!a.is_hotspot, b.end - b.begin) < std::pair(!b.is_hotspot, a.end - a.begin);
  });
  left_out += std::ssize(track.slices) - static_cast<std::int64_t>(kMostSlices);
  track.slices.resize(kMostSlices);
}

// Levels from 0 without gaps: deep stacks are common, and the outer frames often begin outside of what is drawn.
void close_levels(ViewTrack& track) {
  std::vector<int> used;
  for (const ViewSlice& slice : track.slices) used.push_back(slice.level);
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (ViewSlice& slice : track.slices)
    slice.level = static_cast<int>(std::ranges::lower_bound(used, slice.level) - used.begin());
}

ViewTrack track_in(const TraceIndex& index, std::size_t number, const Interval& window, const Shown& shown,
                   std::int64_t& left_out) {
  const analysis::Track& from = index.activity().tracks[number];
  ViewTrack track;
  track.name = from.device < 0 ? from.name : "gpu:" + std::to_string(from.device) + " " + from.name;
  const auto [first, last] = index.range(static_cast<analysis::TrackIndex>(number));
  // Slices that enclose all of the window say nothing of it, but for the innermost few of them.
  std::vector<EventIndex> enclosing;
  for (EventIndex i = first; i < last && index.event(i).begin < window.end; ++i) {
    const Event& event = index.event(i);
    if (event.end <= window.begin) continue;
    if (event.begin <= window.begin && event.end >= window.end && !shown.contains(i)) {
      enclosing.push_back(i);
      continue;
    }
    track.slices.push_back({std::string(index.name(i)), event.kind, from.device < 0 ? level_of(index, i) : 0,
                            event.begin, event.end, shown.contains(i)});
  }
  constexpr std::size_t kMostEnclosing = 6;
  const std::size_t skipped = enclosing.size() > kMostEnclosing ? enclosing.size() - kMostEnclosing : 0;
  for (std::size_t i = skipped; i < enclosing.size(); ++i) {
    const Event& event = index.event(enclosing[i]);
    track.slices.push_back({std::string(index.name(enclosing[i])), event.kind,
                            from.device < 0 ? level_of(index, enclosing[i]) : 0, event.begin, event.end, false});
  }
  keep_longest(track, left_out);
  close_levels(track);
  return track;
}

}  // namespace

std::string key_of(const Finding& finding) {
  std::string key = finding.rule + '\n' + finding.frame + '\n' + std::string(direction_text(finding.direction)) + '\n' +
                    std::string(memory_text(finding.memory));
  for (const std::string& op : finding.chain) key += '\n' + op;
  return key;
}

std::vector<HotspotView> hotspot_views(const TraceIndex& index, const AnalysisReport& report, std::size_t top) {
  std::vector<HotspotView> views;
  for (std::size_t i = 0; i < std::min(top, report.hotspots.size()); ++i) {
    const Finding& finding = report.hotspots[i];
    if (finding.worst < 0) continue;
    const Shown shown = shown_by(index, finding);
    HotspotView view{.place = key_of(finding), .source = report.source, .window = window_of(index, shown)};
    const analysis::TrackIndex thread = index.event(finding.worst).track;
    view.tracks.push_back(track_in(index, static_cast<std::size_t>(thread), view.window, shown, view.left_out));
    for (std::size_t track = 0; track < index.activity().tracks.size(); ++track) {
      if (index.activity().tracks[track].device < 0 || static_cast<analysis::TrackIndex>(track) == thread) continue;
      ViewTrack stream = track_in(index, track, view.window, shown, view.left_out);
      if (!stream.slices.empty()) view.tracks.push_back(std::move(stream));
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace ferry::profiler::analysis_report
