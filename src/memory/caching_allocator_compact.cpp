// The part of CachingAllocator that moves live blocks.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "src/base/check.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/compaction.h"

namespace ferry {
namespace {

using memory::Block;
using memory::BlockState;

constexpr StreamId kCompute{0};

// Copies within the compute stream, to lower addresses or to where nothing overlaps, each piece after those before it,
// and tells the driver which bytes are in use. When the driver refuses one, those before it are copied back, so that
// the source is whole again.
class Slide {
 public:
  Slide(Driver& driver, std::byte* to, std::byte* from, Bytes size)
      : driver_(driver), to_(to), from_(from), size_(size), piece_(std::min(size, Bytes{std::abs(from - to)})) {}

  void carry_out() {
    driver_.note_allocated(to_, piece_, kCompute);
    Bytes done;
    try {
      for (; done < size_; done += piece_) copy(to_, from_, done);
    } catch (...) {
      copy_back(done);
      driver_.note_freed(to_, piece_, kCompute);
      throw;
    }
    driver_.note_freed(given_up(), piece_, kCompute);
  }
  // After carry_out. Throws: DeviceError, and then the bytes are lost.
  void carry_back() {
    driver_.note_allocated(given_up(), piece_, kCompute);
    Bytes done;
    while (done < size_) done += piece_;
    copy_back(done);
    driver_.note_freed(to_, piece_, kCompute);
  }

 private:
  std::byte* given_up() const { return from_ + (size_ - piece_).count; }
  void copy_back(Bytes done) {
    while (done > Bytes{}) {
      done = done - piece_;
      copy(from_, to_, done);
    }
  }
  void copy(std::byte* to, const std::byte* from, Bytes at) {
    driver_.copy({to + at.count, from + at.count, std::min(piece_, size_ - at), CopyDirection::device_to_device,
                  HostMemory::pinned, "compaction"},
                 kCompute);
  }

  Driver& driver_;
  std::byte *to_, *from_;
  Bytes size_, piece_;
};

}  // namespace

std::optional<Bytes> CachingAllocator::compact(Bytes size, const BlockOwners& owners, bool is_last_resort) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "there is no room of {} bytes", size.count);
  if (size == Bytes{}) return Bytes{};
  const Request request = request_for(size, kCompute);
  const std::lock_guard lock(mutex_);
  if (!budget_ || request.size > *budget_) return std::nullopt;
  if (!uses_.idle()) collect(uses_.poll());
  release_small_segments();
  const bool small = request.pool == memory::PoolKind::small;
  const memory::CompactionLimits& limits = is_last_resort ? memory::kLastResort : memory::kWorthIt;
  const auto look = [&](memory::PoolKind pool, Bytes wanted) {
    return memory::cheapest_compaction(heap_.segments(), pool, wanted, owners.may_move, limits);
  };
  memory::Compaction plan;
  if (small) plan = look(memory::PoolKind::large, kSmallSegment);
  if (!plan.found) plan = look(memory::PoolKind::large, request.size);
  if (!plan.found && small && is_last_resort) plan = look(memory::PoolKind::small, request.size);
  if (!plan.found) return std::nullopt;
  Bytes moved;
  for (Block* block : plan.slide) {
    slide(*block, owners);
    moved += block->size;
  }
  return moved;
}

namespace {

// The block, or those that live in the segment that it holds.
std::vector<Block*> live_blocks(Block& block) {
  if (block.holds == nullptr) return {&block};
  std::vector<Block*> live;
  for (Block* inner = block.holds->first; inner != nullptr; inner = inner->right)
    if (inner->state == BlockState::allocated) live.push_back(inner);
  return live;
}

}  // namespace

// Their bytes, and their owners know. Throws: DeviceError, and then all is where it was.
void CachingAllocator::move_by(std::ptrdiff_t distance, std::span<Block* const> blocks, const BlockOwners& owners) {
  for (Block* each : blocks) {
    if (owners.settle) {
      owners.settle(each->data);
      uses_.forget(*each);
    } else {
      uses_.order_owner_after(*each);
    }
  }
  std::vector<Slide> done;
  done.reserve(blocks.size());
  try {
    for (const Block* each : blocks) {
      Slide slide(driver_, each->data + distance, each->data, each->size);
      slide.carry_out();
      done.push_back(slide);
    }
  } catch (...) {
    for (; !done.empty(); done.pop_back()) done.back().carry_back();
    throw;
  }
  for (const Block* each : blocks) owners.moved(each->data, each->data + distance);
}

// With the segment that it holds, if it holds one. Throws: as move_by.
void CachingAllocator::slide(Block& block, const BlockOwners& owners) {
  const Block& gap = *block.left;
  try {
    move_by(gap.data - block.data, live_blocks(block), owners);
  } catch (...) {  // perhaps after copies there and back
    if (arena_ != nullptr) free_log_.freed(gap.data, gap.size + block.size);
    throw;
  }
  heap_.slide(block);
}

Bytes CachingAllocator::raise_small_segments(const BlockOwners& owners) {
  const std::lock_guard lock(mutex_);
  if (!budget_ || arena_ == nullptr) return {};
  if (!uses_.idle()) collect(uses_.poll());
  release_small_segments();
  Bytes moved;
  while (Block* const block = lowest_that_may_rise(owners)) {
    Block& free = *heap_.find_highest(*arena_, block->size);
    Block& place = heap_.take_at(free, free.data + (free.size - block->size).count, block->size, kCompute);
    try {
      move_by(place.data - block->data, live_blocks(*block), owners);
    } catch (...) {
      heap_.put(place);
      throw;
    }
    moved += block->size;
    heap_.move_segment(*block, place);
  }
  return moved;
}

// Of the arena's segments of the small pool for which there is a higher place; null: there is none.
Block* CachingAllocator::lowest_that_may_rise(const BlockOwners& owners) const {
  const auto may_rise = [&](const Block& block) {
    const Block* const free = heap_.find_highest(*arena_, block.size);
    if (free == nullptr || free->data < block.data) return false;
    for (const Block* inner = block.holds->first; inner != nullptr; inner = inner->right) {
      if (inner->state == BlockState::waiting) return false;
      if (inner->state == BlockState::allocated && !owners.may_move(inner->data)) return false;
    }
    return true;
  };
  for (Block* block = arena_->first; block != nullptr; block = block->right)
    if (block->holds != nullptr && may_rise(*block)) return block;
  return nullptr;
}

}  // namespace ferry
