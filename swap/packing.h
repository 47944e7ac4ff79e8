// Addresses for blocks whose lifetimes are known: blocks that live at the same time do not overlap.
//
//   offset
//     ^   ┌──────┐┌────────┐
//     │   │  c   ││   d    │      a and b are given: they lie there already
//     │   ├──────┴┴──┬─────┤
//     │   │    a     │  b  │
//     └───┴──────────┴─────┴──> time
//
// Time is a circle: what happens repeats itself, and a block may live over the end of one round into the next.
//
// Values in, value out: the same input gives the same addresses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ferry/units.h>

namespace ferry::swap {

using Offset = std::int64_t;
constexpr Offset kNowhere = -1;

struct TimedBlock {
  Bytes size{};
  std::int32_t begin = 0, end = 0;  // half-open; end <= begin: to the end of time and from its beginning to `end`
  Offset offset = kNowhere;         // given; kNowhere: to be found
};

struct PackingOptions {
  Bytes capacity{};         // blocks end there or before; those that are given may lie anywhere
  std::int32_t period = 0;  // of time
  int trials = 0;           // orders to try; 0: as many as the number of blocks allows in some tenths of a second
  std::uint64_t seed = 1;
};

struct Packing {
  std::vector<Offset> offsets{};  // by block; kNowhere: no place was found. As given, where it was
  Bytes left_out{};               // blocks without a place, together
};

// Blocks are placed one after the other at the lowest offset that is free for their time, large and long ones first;
// what found no place is placed earlier in the next trial. Requires: sizes are not negative, times lie in [0, period].
Packing pack(std::span<const TimedBlock> blocks, const PackingOptions& options);

}  // namespace ferry::swap
