// Device memory in blocks cut from segments that the driver gave, kept for reuse: an allocation that finds a free block
// costs no driver call.
//
// Sizes (PyTorch's): a request is rounded up to 512 bytes. Requests up to 1 MiB are served by the small pool, from
// segments of 2 MiB, and a block is split when 512 bytes remain. Larger ones are served by the large pool: from 20 MiB
// segments below 10 MiB, from a segment of their own, rounded up to 2 MiB, otherwise; a block is split when more than
// 1 MiB remains. When the driver or the limit refuses such a segment, one that just fits is tried.
//
// Stream order: a block belongs to the stream it was allocated for and, once given back, is reused there at once. A
// block that other streams use (record_use) is reused only after events on those streams have passed. Before a new
// segment is taken, a free block of another stream is reused: the new stream waits for the other one's work so far.
//
// When no memory is left: wait for blocks that other streams use, return cached segments, ask `on_failure`, and at last
// throw OutOfMemory. A failed allocation leaves live allocations and their figures as they were.
//
// Thread-safety: all methods may be called from any thread. `on_failure` is called without a lock and may deallocate.
// Ownership: the driver outlives the allocator; blocks die with the allocator.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "src/memory/allocator.h"
#include "src/memory/block_heap.h"
#include "src/memory/stream_uses.h"

namespace ferry {

enum class FreeMemory : std::uint8_t {
  accessible,
  poisoned,  // AddressSanitizer reports a use; only for memory that the host alone uses
};

struct CachingAllocatorOptions {
  // Reserved memory never exceeds it. Unset: the driver decides.
  std::optional<Bytes> limit{};
  // Called when an allocation found no room: gives up at least that much. True: something was given back, try again.
  std::function<bool(Bytes)> on_failure{};
  // What messages call the memory; empty: the driver's name.
  std::string name{};
  FreeMemory free_memory = FreeMemory::accessible;
};

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(Driver& driver, CachingAllocatorOptions options = {});
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Throws: OutOfMemory; InvalidArgument for a negative size; what on_failure throws.
  Allocation allocate(Bytes size, StreamId stream) override;
  void deallocate(const Allocation& allocation) noexcept override;
  void record_use(const Allocation& allocation, StreamId stream) override;
  void empty_cache() override;
  AllocatorStats stats() const override;
  void reset_peaks() override;

  struct Held {
    Bytes allocated, reserved;
  };
  // Part of stats(), without the search for the largest free block.
  Held held() const;

 private:
  struct Request {
    Bytes asked, size;
    memory::PoolKind pool;
    StreamId stream;
  };
  static Request request_for(Bytes size, StreamId stream);

  // All with mutex_ held. Those that return a bool or a block may not find memory.
  memory::Block* obtain(const Request& request);
  memory::Block* reuse(const Request& request);
  memory::Block* reuse_of_other_stream(const Request& request);
  bool grow(const Request& request);
  bool grow_by(Bytes size, const Request& request);
  void collect(memory::Block* ready) noexcept;
  void give_back(memory::Block& block) noexcept;
  bool release_cached() noexcept;
  Allocation hand_out(memory::Block& block, const Request& request);
  Bytes limit() const;
  OutOfMemory shortage(const Request& request) const;

  Driver& driver_;
  const CachingAllocatorOptions options_;
  mutable std::mutex mutex_;
  memory::BlockHeap heap_;
  memory::StreamUses uses_;
  std::optional<EventId> reuse_event_;
  AllocatorStats stats_;  // largest_free is worked out when asked
};

}  // namespace ferry
