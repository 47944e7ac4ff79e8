// The segments of an allocator, their blocks, and the free ones sorted by stream, pool and size. Knows no driver and no
// policy: it splits, coalesces and finds.
//
// Neighbours coalesce only when both are free and belong to the same stream. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "src/memory/block_bins.h"
#include "src/memory/object_pool.h"

namespace ferry::memory {

class BlockHeap {
 public:
  // Adds a segment as one free block of `stream`. Throws: std::bad_alloc, and then nothing has changed.
  void add_segment(std::byte* data, Bytes size, PoolKind pool, StreamId stream);
  // Removes a segment none of whose blocks is in use, and its blocks.
  void remove_segment(Segment& segment) noexcept;
  // The first segment, the others by Segment::next; null when there is none.
  Segment* segments() const noexcept { return segments_; }

  // The smallest free block of at least `size`, left where it is; null when there is none.
  Block* find(Bytes size, PoolKind pool, StreamId stream) const noexcept;
  // The same among the blocks of all other streams.
  Block* find_on_others(Bytes size, PoolKind pool, StreamId stream) const noexcept;
  // Takes a free block for `stream`. What lies behind `size` becomes a free block when the pool splits that much.
  // Throws: std::bad_alloc, and then nothing has changed.
  void take(Block& block, Bytes size, StreamId stream);
  // A block that is not free becomes free and merges with its free neighbours.
  void put(Block& block) noexcept;

  Bytes largest_free() const noexcept;

 private:
  struct StreamBins {
    BlockBins small, large;
  };
  static BlockBins& bins(StreamBins& of, PoolKind pool) { return pool == PoolKind::small ? of.small : of.large; }
  BlockBins& bins_of(const Block& block) noexcept;
  void absorb_right(Block& block) noexcept;

  std::vector<std::unique_ptr<StreamBins>> streams_;  // by stream + 1, since the host's is -1
  ObjectPool<Block> blocks_;
  ObjectPool<Segment> segment_pool_;
  Segment* segments_ = nullptr;
};

}  // namespace ferry::memory
