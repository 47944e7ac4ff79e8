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
// Budget: begin_budget takes all that may still be reserved as one segment, the arena, and from then on no driver call
// allocates or frees, so that reserved memory is fixed and giving back neighbours always makes one larger block.
//
//   | large blocks, best fit from the low end -->                  free                 <-- small pool, 2 MiB each |
//
// - Blocks are split when 512 bytes remain, in both pools; of equal free blocks the lowest is taken.
// - The small pool cuts its segments from the highest free address of the arena (or of large segments from before),
//   2 MiB each and, when nothing else makes room, one that just fits. One that is unused goes back when a request
//   would fail otherwise, or with empty_cache, which returns nothing to the driver then.
// - All blocks belong to the compute stream. One allocated for another stream makes that stream wait until the compute
//   stream is done with those addresses (FreeLog), and counts as used by it until it is given back: it is reused after
//   an event there, as any block with a foreign use.
// - The host never waits for such events: when a request does not fit, the compute stream waits for them on the device,
//   those first that were given back first, and for no more than it takes. Then `on_failure` is asked.
// - Free memory in several places becomes one when `compact` moves the blocks between them.
// - Who knows what will be allocated may say where (allocate_at), having planned addresses for it in the arena.
//
// Thread-safety: all methods may be called from any thread. `on_failure` is called without a lock and may deallocate.
// Ownership: the driver outlives the allocator; blocks die with the allocator.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/memory/allocator.h"
#include "src/memory/block_heap.h"
#include "src/memory/free_log.h"
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
  // As allocate, at `address` if a budget lasts, the request is one of the large pool, the range lies in the arena and
  // is free, or becomes free once the compute stream has waited for other streams; anywhere else if not. Null:
  // anywhere. Requires: `address` lies a multiple of 512 bytes behind the arena's begin. Throws: as allocate.
  Allocation allocate_at(void* address, Bytes size, StreamId stream);
  // As allocate_at, but elsewhere in the arena if the compute stream is done earlier there: so that a copy need not
  // wait for what the device was given before it.
  Allocation allocate_early(void* address, Bytes size, StreamId stream);
  // As allocate, but null where that would have to ask on_failure.
  Allocation try_allocate(Bytes size, StreamId stream);
  // As allocate_at, but null if it cannot be there.
  Allocation try_allocate_at(void* address, Bytes size, StreamId stream);
  void deallocate(const Allocation& allocation) noexcept override;
  void record_use(const Allocation& allocation, StreamId stream) override;
  // The block is reused after what `stream` was given so far, unless record_use says that there is more; without an
  // address (allocate_at), also after what blocks wait for that were given back before it. Without this it is reused
  // after all that the stream had to do when it was given back. Throws: DeviceError.
  void close_use(const Allocation& allocation, StreamId stream);
  // The block's own stream waits for an event after what `stream` has done with it so far: that use does not hold the
  // block back any more.
  void end_use(const Allocation& allocation, StreamId stream) noexcept;
  void empty_cache() override;
  AllocatorStats stats() const override;
  void reset_peaks() override;

  // From now on no more than `limit` is reserved, and what may still be is taken from the driver at once as the arena.
  // Waits for foreign uses and returns cached segments first. Segments with live blocks stay and count against the
  // limit. Requires: device memory.
  // Throws: InvalidArgument for a limit that is not positive, or while a budget lasts; OutOfMemory when the segments of
  // live allocations are larger than `limit` or the driver does not have the arena in one piece; DeviceError. Then
  // there is no budget and live allocations are as they were; cached segments may have been returned.
  void begin_budget(Bytes limit);
  // The limit goes. The arena stays as an ordinary segment, which empty_cache returns once it is unused. Nothing
  // happens without a budget.
  void end_budget() noexcept;
  // Replaces options.on_failure; empty: nobody is asked. A call that another thread is in ends undisturbed, so the
  // function owns what it needs.
  void set_on_failure(std::function<bool(Bytes)> on_failure);

  // Addresses of the live allocations to give back so that `size` bytes fit in one place, such that the sum of
  // cost(address) is least and among those the number. Free blocks, and blocks that only wait for another stream, cost
  // nothing. An infinite cost: must stay. Empty: there is room, or will be once waiting blocks have passed. Unset: no
  // place, whatever is given back.
  // Requires: cost >= 0, the same for each call with one address, and does not call the allocator. Linear in the number
  // of blocks. Throws: InvalidArgument for a negative size; what `cost` throws.
  std::optional<std::vector<void*>> cheapest_room(Bytes size, const std::function<double(void* address)>& cost) const;

  // What compact asks those who own the live blocks. None of them calls the allocator.
  struct BlockOwners {
    // The owner allows it. Asked for blocks that stay as well.
    std::function<bool(void* address)> may_move;
    // Makes the compute stream wait for all that other streams do with the block, whose move follows. Unset: it waits
    // for all that streams were given so far that use the block (record_use).
    std::function<void(void* address)> settle{};
    // The copy was enqueued on the compute stream: the block's address is `to` from now on. Does not throw.
    std::function<void(void* from, void* to)> moved;
  };
  // Makes room for `size` bytes in one place: live blocks of the large pool slide towards lower addresses within one
  // run of neighbours, the one in which fewest bytes move; as a last resort also those of the small pool, and at any
  // cost. They are copied on the device, in the order of the compute stream; the host does not wait. Returns the bytes
  // moved; 0 when there is room already. Unset: no run of blocks that may move has that much free memory, more than
  // twice `size` would move and it is not the last resort, or there is no budget.
  // Throws: InvalidArgument for a negative size; DeviceError, and what `settle` throws: blocks moved before that are
  // moved, all others are where they were. Only when the device refuses to copy back the pieces of a block half moved
  // are its contents lost.
  std::optional<Bytes> compact(Bytes size, const BlockOwners& owners, bool is_last_resort = false);

  // Segments of the small pool, with what lives in them, move to higher free places of the arena while there are any,
  // so that low addresses are left to large blocks. Those with a block that may not move, or that waits for another
  // stream, stay. Copies and errors as in compact. Returns the bytes moved.
  Bytes raise_small_segments(const BlockOwners& owners);

  // Blocks of the arena that live, in order of addresses.
  struct Taken {
    void* address = nullptr;
    Bytes size;  // of the block
    bool is_small_pool = false;
  };
  struct Arena {
    void* data = nullptr;  // null: there is none
    Bytes size;
    std::vector<Taken> taken;
  };
  Arena arena() const;
  // What a request of that size takes, and whether the large pool serves it.
  struct Extent {
    Bytes size;
    bool is_large = false;
  };
  static Extent extent_of(Bytes size);

  struct Held {
    Bytes allocated, reserved;
  };
  // Part of stats(), without the search for the largest free block.
  Held held() const;

 private:
  static constexpr Bytes kSmallSegment = kMiB * 2;

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
  memory::Segment* add_segment(Bytes size, memory::PoolKind pool, StreamId stream);
  void order_after(StreamId stream, StreamId earlier);
  memory::Block* obtain_in_budget(const Request& request);
  memory::Block* fit_in_budget(const Request& request);
  memory::Block* reuse_in_budget(const Request& request);
  memory::Block* take_at(std::byte* address, const Request& request);
  memory::Block* take_early(std::byte* address, const Request& request);
  void order_after_use(StreamId stream, std::byte* address, Bytes size);
  std::vector<memory::FreeLog::Range> free_ranges(memory::PoolKind pool) const;
  bool free_range(std::byte* address, Bytes size);
  memory::Block* use_in_budget(memory::Block& block, StreamId stream);
  bool cut_small_segment(Bytes size);
  bool release_small_segments() noexcept;
  void move_by(std::ptrdiff_t distance, std::span<memory::Block* const> blocks, const BlockOwners& owners);
  void slide(memory::Block& block, const BlockOwners& owners);
  memory::Block* lowest_that_may_rise(const BlockOwners& owners) const;
  void require_room_for(Bytes budget) const;
  void order_compute_after_all();
  const memory::Segment* take_arena(Bytes budget);
  void collect(memory::Block* ready) noexcept;
  void give_back(memory::Block& block) noexcept;
  bool release_cached() noexcept;
  Allocation hand_out(memory::Block& block, const Request& request);
  std::optional<Bytes> own_limit() const;
  Bytes limit() const;
  std::string name() const { return options_.name.empty() ? driver_.info().name : options_.name; }
  OutOfMemory shortage(const Request& request) const;

  Driver& driver_;
  const CachingAllocatorOptions options_;
  mutable std::mutex mutex_;
  memory::BlockHeap heap_;
  memory::StreamUses uses_;
  memory::FreeLog free_log_;  // of the arena
  std::optional<EventId> reuse_event_;
  std::shared_ptr<const std::function<bool(Bytes)>> on_failure_;
  std::optional<Bytes> budget_;
  const memory::Segment* arena_ = nullptr;  // while a budget lasts; null too when nothing was left for one
  AllocatorStats stats_;                    // largest_free is worked out when asked
};

}  // namespace ferry
