#include "src/memory/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/check.h"
#include "src/memory/shortage.h"

namespace ferry {
namespace {

using memory::Block;
using memory::BlockState;

constexpr Bytes kSmallestSlab = kKiB * 4;
constexpr Bytes kLargestRequest = kGiB * (1 << 16);
constexpr int kStepBits = 2;  // classes a doubling: 4

int octave(Bytes size) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size.count))) - 1; }

Block& block_of(const Allocation& allocation) { return *static_cast<Block*>(allocation.block); }

}  // namespace

Bytes PinnedPool::slab_size(Bytes size) {
  if (size <= kSmallestSlab) return kSmallestSlab;
  const std::int64_t step = std::int64_t{1} << (octave(size - Bytes{1}) - kStepBits);
  return {(size.count + step - 1) / step * step};
}

std::size_t PinnedPool::class_of(Bytes slab) {
  const int exponent = octave(slab);
  const std::int64_t step = (slab.count >> (exponent - kStepBits)) - (1 << kStepBits);
  return static_cast<std::size_t>(((exponent - octave(kSmallestSlab)) << kStepBits) + step);
}

PinnedPool::PinnedPool(Driver& driver, PinnedPoolOptions options)
    : driver_(driver), options_(std::move(options)), uses_(driver) {}

PinnedPool::~PinnedPool() {
  for (const Block* slab = slabs_; slab != nullptr; slab = slab->right) driver_.free_pinned(slab->data, slab->size);
}

Allocation PinnedPool::allocate(Bytes size, StreamId /*stream*/) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  const std::lock_guard lock(mutex_);
  if (size > kLargestRequest) throw shortage(size, size);
  const Bytes slab = slab_size(size);
  Block* block = obtain(slab);
  if (block == nullptr) throw shortage(size, slab);
  block->state = BlockState::allocated;
  block->requested = size;
  ++stats_.allocations;
  stats_.active += slab;
  stats_.allocated += size;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return {block->data, size, block};
}

Block* PinnedPool::obtain(Bytes slab) {
  if (!uses_.idle()) collect(uses_.poll());
  if (Block* block = reuse(slab)) return block;
  if (Block* block = grow(slab)) return block;
  if (!uses_.idle()) {
    collect(uses_.wait());
    if (Block* block = reuse(slab)) return block;
  }
  return release_idle() ? grow(slab) : nullptr;
}

Block* PinnedPool::reuse(Bytes slab) noexcept {
  Block*& idle = idle_[class_of(slab)];
  return idle != nullptr ? std::exchange(idle, idle->next) : nullptr;
}

Block* PinnedPool::grow(Bytes slab) {
  if (options_.limit && stats_.reserved + slab > *options_.limit) return nullptr;
  Block* block = blocks_.get();
  ++stats_.driver_allocations;
  auto* data = static_cast<std::byte*>(driver_.allocate_pinned(slab));
  if (data == nullptr) {
    blocks_.put(block);
    return nullptr;
  }
  *block = {.data = data, .size = slab, .stream = memory::kHostStream, .right = slabs_};
  if (slabs_ != nullptr) slabs_->left = block;
  slabs_ = block;
  ++stats_.segments;
  stats_.reserved += slab;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return block;
}

void PinnedPool::deallocate(const Allocation& allocation) noexcept {
  if (allocation.block == nullptr) return;
  Block& block = block_of(allocation);
  const std::lock_guard lock(mutex_);
  ++stats_.deallocations;
  stats_.allocated -= block.requested;
  if (uses_.retire(block)) {
    give_back(block);
  } else {
    block.state = BlockState::waiting;
  }
}

void PinnedPool::record_use(const Allocation& allocation, StreamId stream) {
  if (allocation.block == nullptr) return;
  const std::lock_guard lock(mutex_);
  uses_.record_use(block_of(allocation), stream);
}

void PinnedPool::collect(Block* ready) noexcept {
  while (ready != nullptr) give_back(*std::exchange(ready, ready->next));
}

void PinnedPool::give_back(Block& block) noexcept {
  stats_.active -= block.size;
  block.state = BlockState::free;
  block.next = std::exchange(idle_[class_of(block.size)], &block);
}

bool PinnedPool::release_idle() noexcept {
  bool any = false;
  for (Block*& list : idle_) {
    while (list != nullptr) {
      Block* block = std::exchange(list, list->next);
      (block->left != nullptr ? block->left->right : slabs_) = block->right;
      if (block->right != nullptr) block->right->left = block->left;
      driver_.free_pinned(block->data, block->size);
      --stats_.segments;
      stats_.reserved -= block->size;
      blocks_.put(block);
      any = true;
    }
  }
  return any;
}

void PinnedPool::empty_cache() {
  const std::lock_guard lock(mutex_);
  if (!uses_.idle()) collect(uses_.wait());
  release_idle();
}

AllocatorStats PinnedPool::stats() const {
  const std::lock_guard lock(mutex_);
  AllocatorStats result = stats_;
  for (const Block* list : idle_) {
    if (list != nullptr) result.largest_free = list->size;
  }
  return result;
}

void PinnedPool::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

OutOfMemory PinnedPool::shortage(Bytes asked, Bytes slab) const {
  const std::string where = "pinned host memory of " + driver_.info().name;
  Bytes largest;
  for (const Block* list : idle_) {
    if (list != nullptr) largest = list->size;
  }
  return memory::out_of_memory({.where = where,
                                .requested = asked,
                                .needed = slab,
                                .allocated = stats_.allocated,
                                .active = stats_.active,
                                .reserved = stats_.reserved,
                                .largest_free = largest,
                                .limit = options_.limit,
                                .limit_is = "limit"});
}

}  // namespace ferry
