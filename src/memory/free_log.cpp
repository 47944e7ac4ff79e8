#include "src/memory/free_log.h"

#include <algorithm>

namespace ferry::memory {

FreeLog::~FreeLog() {
  for (const EventId event : events_) driver_.destroy_event(event);
}

void FreeLog::begin(Bytes arena) {
  ring_.resize(kEntries);
  late_.reserve(kEntries + 1);
  events_.reserve(kMarks);
  written_ = last_mark_ = oldest_ = marked_ = 0;
  step_ = std::max(Bytes{arena.count / static_cast<std::int64_t>(kMarks)}, kSmallestStep);
  since_mark_ = step_;  // what is free now is marked with the first allocation
}

void FreeLog::mark() {
  const auto slot = static_cast<std::size_t>(marked_) % kMarks;
  if (slot == events_.size()) events_.push_back(driver_.create_event());
  if (marked_ - oldest_ == static_cast<std::int64_t>(kMarks)) ++oldest_;  // its event is recorded again
  driver_.record_event(events_[slot], compute_);
  marks_[slot] = {events_[slot], written_};
  ++marked_;
  last_mark_ = written_;
  since_mark_ = {};
}

std::int64_t FreeLog::first_known() const {
  std::int64_t first = oldest_;
  while (first < marked_ && at(first).position < written_ - static_cast<std::int64_t>(kEntries)) ++first;
  return first;
}

std::optional<EventId> FreeLog::free_since(const Range& range) const {
  const std::int64_t first = first_known();
  if (first == marked_) return std::nullopt;
  std::int64_t last_use = written_;
  while (last_use > at(first).position && !ring_[static_cast<std::size_t>(last_use - 1) % kEntries].overlaps(range))
    --last_use;
  for (std::int64_t mark = first; mark < marked_; ++mark)
    if (at(mark).position >= last_use) return at(mark).event;
  return std::nullopt;
}

// Null: not with that mark.
std::byte* FreeLog::find(std::int64_t mark, Bytes size, std::span<const Range> free, const Range& besides) const {
  late_.assign(1, besides);
  for (std::int64_t entry = at(mark).position; entry < written_; ++entry)
    late_.push_back(ring_[static_cast<std::size_t>(entry) % kEntries]);
  std::ranges::sort(late_, {}, &Range::begin);
  Range best;
  const auto offer = [&](std::byte* begin, std::byte* end) {
    if (end - begin < size.count) return;
    if (best.begin == nullptr || end - begin < best.end - best.begin) best = {begin, end};
  };
  auto late = late_.begin();
  std::byte* late_end = nullptr;  // of all that begin before the ones looked at
  for (const Range& range : free) {
    std::byte* begin = std::max(range.begin, late_end);
    for (; late != late_.end() && late->begin < range.end; ++late) {
      offer(begin, std::max(begin, late->begin));
      late_end = std::max(late_end, late->end);
      begin = std::max(begin, late_end);
    }
    offer(begin, range.end);
  }
  return best.begin;
}

std::optional<FreeLog::Place> FreeLog::earliest(Bytes size, std::span<const Range> free, const Range& besides,
                                                std::optional<EventId> before) const {
  std::int64_t low = first_known(), high = marked_;  // what is free with one mark is with later ones
  for (std::int64_t mark = low; before && mark < high; ++mark)
    if (at(mark).event == *before) high = mark;
  std::byte* found = nullptr;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (std::byte* const address = find(middle, size, free, besides)) {
      found = address;
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (found == nullptr) return std::nullopt;
  return Place{found, at(high).event};
}

}  // namespace ferry::memory
