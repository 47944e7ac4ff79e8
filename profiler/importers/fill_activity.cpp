#include "profiler/importers/fill_activity.h"

namespace ferry::profiler::importers {

Event* add_event(Activity& activity, EventKind kind, Nanoseconds begin, Nanoseconds end, TrackIndex track) {
  constexpr Nanoseconds kLatest{std::int64_t{1} << 62};
  if (end < begin || begin < -kLatest || end > kLatest) {
    ++activity.tolerated.without_time;
    return nullptr;
  }
  Event& event = activity.events.emplace_back();
  event.kind = kind;
  event.begin = begin;
  event.end = end;
  event.track = track;
  return &event;
}

void add_copy(Activity& activity, Event& event, const CopyDetail& detail) {
  event.detail = static_cast<std::int32_t>(activity.copies.size());
  CopyDetail& copy = activity.copies.emplace_back(detail);
  constexpr Bytes kLargest = kGiB * (1 << 16);
  if (copy.size < Bytes{} || copy.size > kLargest) copy.size = {};
}

}  // namespace ferry::profiler::importers
