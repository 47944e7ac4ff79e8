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

// A block that slides by less than its size is copied in pieces of that distance. More than so many are not worth it.
constexpr std::int64_t kMostPieces = 64;
// Bytes that move for each byte wanted. Many kernels run again in the time that a device needs to move more than that.
constexpr std::int64_t kMostMoved = 2;

struct Compaction {
  bool found = false;         // false: no run has so much free memory, or too much would move
  std::vector<Block*> slide;  // lowest first; empty when there is room already
};

// Looks through the segments of the large pool, linked by Segment::next. A run ends at a block that holds a segment, at
// one that waits for another stream, at one that may not move, and where blocks of two streams meet.
// Requires: size is positive; may_move does not change blocks.
Compaction cheapest_compaction(const Segment* segments, Bytes size, const std::function<bool(void*)>& may_move);

}  // namespace ferry::memory
