// Blocks and segments: what the allocators keep about each piece of memory.
//
//   segment (one driver allocation)
//   +-----------+------------+---------------------+
//   | block     | block      | block               |   left/right link neighbours in address order
//   | allocated | free       | waiting             |
//   +-----------+------------+---------------------+
//
// Under a budget, segments of the small pool are cut from blocks of large ones (Block::holds, Segment::place).
//
// Plain data, guarded by the owning allocator's mutex.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/units.h>
#include "src/device/driver.h"

namespace ferry::memory {

// The stream of host memory, as the ordering checker names it.
constexpr StreamId kHostStream{-1};

struct StreamUse;
struct Segment;

enum class BlockState : std::uint8_t {
  free,       // cached, in a bin
  allocated,  // a caller has it
  waiting,    // given back, but another stream's work on it has not passed
};

struct Block {
  std::byte* data = nullptr;
  Bytes size{};
  Bytes requested{};
  StreamId stream{};
  BlockState state = BlockState::free;
  std::int32_t pending = 0;  // uses whose events have not passed
  Segment* segment = nullptr;
  Block* left = nullptr;  // neighbours in the segment
  Block* right = nullptr;
  Block* previous = nullptr;  // in a bin or a list
  Block* next = nullptr;
  StreamUse* uses = nullptr;  // other streams that use it
  Segment* holds = nullptr;   // the segment that was cut from it
};

enum class PoolKind : std::uint8_t { small, large };

struct Segment {
  std::byte* data = nullptr;
  Bytes size{};
  PoolKind pool = PoolKind::small;
  std::int32_t in_use = 0;  // blocks that are not free
  Block* first = nullptr;
  Block* place = nullptr;  // what it was cut from; null: the driver gave it
  Segment* previous = nullptr;
  Segment* next = nullptr;
};

}  // namespace ferry::memory
