// Page-locked host memory in slabs that are kept: in a steady state no allocation calls the driver.
//
// A slab holds one allocation. Sizes are classes: powers of two from 4 KiB with three steps between (4, 5, 6, 7, 8, 10
// KiB, …), so at most a fifth of a slab is unused above 4 KiB. A slab that asynchronous copies use (record_use) is
// reused only after events on their streams have passed.
//
// When the driver or the limit refuses: slabs of any size that wait for copies are waited for, idle ones are returned,
// then OutOfMemory is thrown.
//
// Thread-safety: all methods may be called from any thread.
// Ownership: the driver outlives the pool; slabs die with the pool.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <string>

#include "src/memory/allocator.h"
#include "src/memory/block.h"
#include "src/memory/object_pool.h"
#include "src/memory/stream_uses.h"

namespace ferry {

struct PinnedPoolOptions {
  std::optional<Bytes> limit{};  // reserved memory never exceeds it
};

class PinnedPool final : public Allocator {
 public:
  explicit PinnedPool(Driver& driver, PinnedPoolOptions options = {});
  ~PinnedPool() override;
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // The stream is ignored: the memory belongs to the host. Throws: OutOfMemory; InvalidArgument for a negative size.
  Allocation allocate(Bytes size, StreamId stream = {}) override;
  void deallocate(const Allocation& allocation) noexcept override;
  // A copy on `stream` reads or writes the memory: any stream counts.
  void record_use(const Allocation& allocation, StreamId stream) override;
  void empty_cache() override;
  AllocatorStats stats() const override;
  void reset_peaks() override;

  // What a request of `size` takes.
  static Bytes slab_size(Bytes size);

 private:
  static constexpr std::size_t kClasses = 160;
  static std::size_t class_of(Bytes slab);

  // With mutex_ held.
  memory::Block* obtain(Bytes slab);
  memory::Block* reuse(Bytes slab) noexcept;
  memory::Block* grow(Bytes slab);
  void collect(memory::Block* ready) noexcept;
  void give_back(memory::Block& block) noexcept;
  bool release_idle() noexcept;
  OutOfMemory shortage(Bytes asked, Bytes slab) const;

  Driver& driver_;
  const PinnedPoolOptions options_;
  mutable std::mutex mutex_;
  memory::ObjectPool<memory::Block> blocks_;
  std::array<memory::Block*, kClasses> idle_{};  // lists linked by Block::next
  memory::Block* slabs_ = nullptr;               // all, linked by Block::left and right
  memory::StreamUses uses_;
  AllocatorStats stats_;
};

}  // namespace ferry
