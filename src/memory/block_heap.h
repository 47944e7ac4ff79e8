// The segments of an allocator, their blocks, and the free ones sorted by stream, pool and size. Knows no driver and no
// policy: it splits, coalesces and finds.
//
// Neighbours coalesce only when both are free and belong to the same stream. Not thread-safe.
//
// A segment may lie inside a block of another one: that block counts as in use until the inner segment is removed.
#pragma once

#include <memory>
#include <vector>

#include "src/memory/block_bins.h"
#include "src/memory/free_log.h"
#include "src/memory/object_pool.h"

namespace ferry::memory {

enum class Packing : std::uint8_t {
  quick,  // of equal blocks the one freed last is taken; the large pool leaves up to 1 MiB attached to a block
  tight,  // of equal blocks the lowest is taken; every block is split when 512 bytes remain
};

class BlockHeap {
 public:
  // Adds a segment as one free block of `stream`. Throws: std::bad_alloc, and then nothing has changed.
  Segment& add_segment(std::byte* data, Bytes size, PoolKind pool, StreamId stream);
  // Makes the high end of a free block of the large pool a segment of the small one, for the block's stream.
  // Requires: size <= block.size. Throws: std::bad_alloc, and then nothing has changed.
  void add_segment_inside(Block& block, Bytes size);
  // Removes a segment none of whose blocks is in use, and its blocks. The block that it lay inside becomes free.
  void remove_segment(Segment& segment) noexcept;
  // The first segment, the others by Segment::next; null when there is none.
  Segment* segments() const noexcept { return segments_; }
  template <class Visit>
  void for_each_block(Visit visit) const {
    for (const Segment* segment = segments_; segment != nullptr; segment = segment->next) {
      for (Block* block = segment->first; block != nullptr; block = block->right) visit(*block);
    }
  }

  // The smallest free block of at least `size`, left where it is; null when there is none.
  Block* find(Bytes size, PoolKind pool, StreamId stream) const noexcept;
  // The same among the blocks of all other streams.
  Block* find_on_others(Bytes size, PoolKind pool, StreamId stream) const noexcept;
  // The free block of at least `size` that lies highest in a segment; null when there is none. Linear.
  Block* find_highest(const Segment& segment, Bytes size) const noexcept;
  // The block of the segment that `address` lies in. Linear. Requires: it lies in the segment.
  static Block& block_at(const Segment& segment, const std::byte* address) noexcept;
  // Takes a free block for `stream`. What lies behind `size` becomes a free block when the pool splits that much.
  // Throws: std::bad_alloc, and then nothing has changed.
  void take(Block& block, Bytes size, StreamId stream);
  // The same from `begin` on, within a free block: what lies before it becomes a free block, too.
  // Returns the block taken. Requires: `begin` lies a multiple of kBlockUnit behind the block's, and `size` fits.
  // Throws: std::bad_alloc, and then nothing has changed.
  Block& take_at(Block& block, std::byte* begin, Bytes size, StreamId stream);
  // A block that is not free becomes free and merges with its free neighbours.
  void put(Block& block) noexcept;
  // A block in use, with the segment that it holds, and its free left neighbour change places. The free one merges with
  // what is free on its right. Requires: both belong to one stream.
  void slide(Block& block) noexcept;
  // The segment that `from` holds lies in `to` from now on, and `from` becomes free. Requires: both belong to one
  // stream, are in use and of equal size; `to` holds none.
  void move_segment(Block& from, Block& to) noexcept;

  // All free blocks belong to `stream` from now on, merge with their neighbours and are packed as said. Requires:
  // `stream` is ordered after the work of the streams that they belonged to. Throws: std::bad_alloc, and then nothing
  // has changed.
  void give_free_blocks_to(StreamId stream, Packing packing);
  // For blocks put and taken from now on.
  void set_packing(Packing packing) noexcept { packing_ = packing; }
  // `log` is told of what becomes free in `segment` and in those inside it; null: nobody is.
  void set_free_log(const Segment* segment, FreeLog* log) noexcept {
    logged_ = segment;
    log_ = log;
  }

  Bytes largest_free() const noexcept;

 private:
  struct StreamBins {
    BlockBins small, large;
  };
  static BlockBins& bins(StreamBins& of, PoolKind pool) { return pool == PoolKind::small ? of.small : of.large; }
  BlockBins& bins_of(const Block& block) noexcept;
  bool lies_in_logged(const Segment& segment) const noexcept {
    return log_ != nullptr && (&segment == logged_ || (segment.place != nullptr && segment.place->segment == logged_));
  }
  StreamBins& make_bins(StreamId stream);
  void insert(Block& block) noexcept;
  bool splits(const Block& block, Bytes size) const noexcept;
  void absorb_right(Block& block) noexcept;
  void shift(Segment& segment, std::ptrdiff_t distance) noexcept;

  std::vector<std::unique_ptr<StreamBins>> streams_;  // by stream + 1, since the host's is -1
  ObjectPool<Block> blocks_;
  ObjectPool<Segment> segment_pool_;
  Segment* segments_ = nullptr;
  Packing packing_ = Packing::quick;
  const Segment* logged_ = nullptr;
  FreeLog* log_ = nullptr;
};

}  // namespace ferry::memory
