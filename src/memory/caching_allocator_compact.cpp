// The part of CachingAllocator that moves live blocks.
#include <algorithm>

#include "src/base/check.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/compaction.h"

namespace ferry {
namespace {

using memory::Block;
using memory::BlockState;

constexpr StreamId kCompute{0};

// Copies within the compute stream, each piece after those before it. When the driver refuses one, those before it are
// copied back, so that the source is whole again.
class Slide {
 public:
  Slide(Driver& driver, std::byte* to, std::byte* from, Bytes size)
      : driver_(driver), to_(to), from_(from), size_(size), piece_(std::min(size, Bytes{from - to})) {}

  void carry_out() {
    Bytes done;
    try {
      for (; done < size_; done += piece_) copy(to_, from_, done);
    } catch (...) {
      while (done > Bytes{}) {
        done = done - piece_;
        copy(from_, to_, done);
      }
      throw;
    }
  }

  // What the block takes that was free, at `to`, and gives up, at the end of `from`.
  Bytes overhang() const { return piece_; }

 private:
  void copy(std::byte* to, const std::byte* from, Bytes at) {
    driver_.copy({to + at.count, from + at.count, std::min(piece_, size_ - at), CopyDirection::device_to_device,
                  HostMemory::pinned, "compaction"},
                 kCompute);
  }

  Driver& driver_;
  std::byte *const to_, *const from_;
  const Bytes size_, piece_;
};

}  // namespace

std::optional<Bytes> CachingAllocator::compact(Bytes size, const BlockOwners& owners) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "there is no room of {} bytes", size.count);
  if (size == Bytes{}) return Bytes{};
  const Request request = request_for(size, kCompute);
  const std::lock_guard lock(mutex_);
  if (!budget_ || request.size > *budget_) return std::nullopt;
  if (!uses_.idle()) collect(uses_.poll());
  release_small_segments();
  const bool small = request.pool == memory::PoolKind::small;
  memory::Compaction plan;
  if (small) plan = memory::cheapest_compaction(heap_.segments(), kSmallSegment, owners.may_move);
  if (!plan.found) plan = memory::cheapest_compaction(heap_.segments(), request.size, owners.may_move);
  if (!plan.found) return std::nullopt;
  Bytes moved;
  for (Block* block : plan.slide) {
    slide(*block, owners);
    moved += block->size;
  }
  return moved;
}

// Throws: DeviceError, and then the block is where it was.
void CachingAllocator::slide(Block& block, const BlockOwners& owners) {
  std::byte* const from = block.data;
  std::byte* const to = block.left->data;
  if (owners.settle) {
    owners.settle(from);
    uses_.forget(block);
  } else {
    uses_.order_owner_after(block);
  }
  Slide pieces(driver_, to, from, block.size);
  const Bytes overhang = pieces.overhang();
  driver_.note_allocated(to, overhang, kCompute);
  try {
    pieces.carry_out();
  } catch (...) {
    driver_.note_freed(to, overhang, kCompute);
    throw;
  }
  driver_.note_freed(from + (block.size - overhang).count, overhang, kCompute);
  heap_.slide(block);
  owners.moved(from, to);
}

}  // namespace ferry
