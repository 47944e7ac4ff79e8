// Since when the free addresses of an arena are free, in the order of the compute stream.
//
// All blocks of a budget's arena belong to the compute stream: work on another stream may have a free range once the
// compute stream has passed the point at which the range was given back. Such points are marked by events, one whenever
// a good part of the arena or many ranges were given back; between two of them the log holds what was. The latest marks
// are kept, and as many ranges as fit a ring: what was given back before them counts as given back with the first mark.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/device/driver.h"

namespace ferry::memory {

class FreeLog {
 public:
  struct Range {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;

    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  };

  FreeLog(Driver& driver, StreamId compute) : driver_(driver), compute_(compute) {}
  ~FreeLog();
  FreeLog(const FreeLog&) = delete;
  FreeLog& operator=(const FreeLog&) = delete;

  // A new arena: nothing of it is marked. Throws: std::bad_alloc.
  void begin(Bytes arena);
  // The compute stream will not use the range any more after the work that it was given so far.
  void freed(std::byte* data, Bytes size) noexcept {
    ring_[static_cast<std::size_t>(written_++) % kEntries] = {data, data + size.count};
    since_mark_ += size;
  }
  // Marks the point that the compute stream has been given work to, if it is time. Throws: DeviceError.
  void keep_marks() {
    if (since_mark_ >= step_ || written_ - last_mark_ >= kMostBetween) mark();
  }

  // An event of the compute stream after which the range, which is free, is not used. Unset: none is known but one that
  // follows all its work.
  std::optional<EventId> free_since(const Range& range) const;
  struct Place {
    std::byte* address = nullptr;
    EventId since;
  };
  // Where `size` bytes of these free ranges, in order of addresses, may be had first, but for those in `besides`; in
  // the smallest such place. `before`: only where that is earlier than this event, which free_since named. Unset:
  // nowhere before all work, or that event, has passed.
  std::optional<Place> earliest(Bytes size, std::span<const Range> free, const Range& besides,
                                std::optional<EventId> before = std::nullopt) const;

 private:
  static constexpr std::size_t kMarks = 32, kEntries = 4096;
  static constexpr Bytes kSmallestStep = kMiB * 4;
  static constexpr std::int64_t kMostBetween = kEntries / kMarks;  // entries between two marks

  struct Mark {
    EventId event;
    std::int64_t position = 0;  // entries written before it
  };

  void mark();
  const Mark& at(std::int64_t mark) const { return marks_[static_cast<std::size_t>(mark) % kMarks]; }
  std::int64_t first_known() const;  // of the marks; entries since those before were overwritten
  std::byte* find(std::int64_t mark, Bytes size, std::span<const Range> free, const Range& besides) const;

  Driver& driver_;
  const StreamId compute_;
  std::vector<Range> ring_;
  std::int64_t written_ = 0, last_mark_ = 0;  // entries, since the beginning; those before the last mark
  std::array<Mark, kMarks> marks_{};
  std::int64_t oldest_ = 0, marked_ = 0;  // marks kept: [oldest_, marked_), counted since the beginning
  std::vector<EventId> events_;
  Bytes since_mark_, step_;
  mutable std::vector<Range> late_;
};

}  // namespace ferry::memory
