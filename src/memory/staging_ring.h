// Pinned memory through which implicit host→device copies go without blocking: a few slabs used in turn, cut into
// blocks from front to back. A slab is used again when the copies from it have passed.
//
// When all slabs are in flight, acquire waits for one: the host runs ahead of the device by slabs × slab bytes at most.
// Blocks larger than a slab, and blocks for which no slab can be waited for, get memory of their own from the pool.
//
// Thread-safety: acquire may be called from any thread; a Block belongs to one thread at a time.
// Ownership: driver and pool outlive the ring, which outlives its blocks. Destroying the ring waits for its copies.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/memory/pinned_pool.h"
#include "src/memory/stream_uses.h"

namespace ferry {

struct StagingRingOptions {
  Bytes slab = kMiB * 4;
  int slabs = 16;  // at the most: as many are made as copies in flight have needed
};

class StagingRing {
 private:
  struct Slab;

 public:
  // Memory to fill and copy from; gives itself back when it dies. Move-only.
  class Block {
   public:
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    std::byte* data() const { return data_; }
    Bytes size() const { return size_; }
    // Copies of the block are enqueued on `stream` while the block lives. To be called before them, so that a failure
    // leaves no copy unguarded. Throws: DeviceError.
    void used_by(StreamId stream);

   private:
    friend class StagingRing;
    Block(StagingRing& ring, Slab* slab, Allocation own, std::byte* data, Bytes size)
        : ring_(&ring), slab_(slab), own_(own), data_(data), size_(size) {}

    StagingRing* ring_;
    Slab* slab_;  // null: own memory
    Allocation own_;
    std::byte* data_;
    Bytes size_;
  };

  // Requires: options.slab > 0, options.slabs > 0.
  StagingRing(Driver& driver, PinnedPool& pool, StagingRingOptions options = {});
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // The largest block that the ring itself serves.
  Bytes slab_size() const { return options_.slab; }
  // Pinned memory that it keeps.
  Bytes held();

  // 64-byte aligned. Throws: OutOfMemory; DeviceError of copies that were waited for.
  Block acquire(Bytes size);

 private:
  struct Slab : memory::Block {
    Allocation memory;
    Bytes used{};
    int open = 0;  // blocks that callers hold
  };

  // With mutex_ held.
  Slab* next_slab();
  Slab* add_slab();
  void leave_current() noexcept;
  void retire(Slab& slab) noexcept;
  void collect(memory::Block* ready) noexcept;
  Slab* take_ready() noexcept;

  void release(Block& block) noexcept;

  PinnedPool& pool_;
  const StagingRingOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  Slab* current_ = nullptr;
  memory::Block* ready_ = nullptr;  // slabs that nothing uses, linked by Block::next
  memory::StreamUses uses_;
};

}  // namespace ferry
