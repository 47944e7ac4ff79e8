// Where live blocks have to slide so that free memory lies in one place: of all runs of neighbours the one in which
// fewest bytes move.
//
//   before  | a | free: 2 | b | free: 3 | c |      room for 5: b slides by 2
//   after   | a | b | free: 5           | c |
//
// Blocks of a run slide towards lower addresses, in that order, each by the free bytes before it. Not thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "src/memory/block.h"

namespace ferry::memory {

// What a compaction may cost.
struct CompactionLimits {
  std::int64_t most_moved = 0;   // bytes that move for each byte wanted
  std::int64_t most_pieces = 0;  // a block that slides by less than its size is copied in pieces of that distance
  bool slides_segments = false;  // blocks that hold a segment slide too, with all that lives there
};
// Many kernels run again in the time that a device needs to move more than that.
constexpr CompactionLimits kWorthIt{.most_moved = 2, .most_pieces = 64};
// Where nothing else is left but to give up.
constexpr CompactionLimits kLastResort{
    .most_moved = std::int64_t{1} << 20, .most_pieces = 4096, .slides_segments = true};

struct Compaction {
  bool found = false;         // false: no run has so much free memory, or too much would move
  std::vector<Block*> slide;  // lowest first; empty when there is room already
};

// Looks through the segments of a pool, linked by Segment::next. A run ends at a block that waits for another stream,
// at one that may not move, where blocks of two streams meet, and at one that holds a segment, unless such slide.
// Requires: size is positive; may_move does not change blocks.
Compaction cheapest_compaction(const Segment* segments, PoolKind pool, Bytes size,
                               const std::function<bool(void*)>& may_move, const CompactionLimits& limits = kWorthIt);

}  // namespace ferry::memory
