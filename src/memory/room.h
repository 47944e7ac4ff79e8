// The cheapest place for an allocation among blocks that are in use: which of them would have to be given back.
//
//   segment  | a: 3 | free: 2 | b: 1 | waiting: 2 | c: 4 |      room for 5: {b} if b costs least,
//                     <------------------------->               {a}, {b} and {c} being what the windows of 5 hold
//
// A window is a run of neighbours in one segment. Free blocks and those that only wait for other streams cost nothing.
// A block that holds a segment of the small pool costs what the blocks of that segment cost together. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/memory/block.h"

namespace ferry::memory {

struct RoomRequest {
  Bytes size;              // a multiple of the block unit
  PoolKind pool;           // whose segments are searched
  bool anywhere_if_small;  // a request of the small pool may also have a place in segments of the large one
};

// What cheapest_room of CachingAllocator (src/memory/caching_allocator.h) promises. `segments`: linked by
// Segment::next.
std::optional<std::vector<void*>> cheapest_room(const Segment* segments, const RoomRequest& request,
                                                const std::function<double(void*)>& cost);

}  // namespace ferry::memory
