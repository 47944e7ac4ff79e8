#include "src/memory/caching_allocator.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/memory/poison.h"
#include "src/memory/shortage.h"

namespace ferry {
namespace {

using memory::Block;
using memory::BlockState;
using memory::PoolKind;
using memory::Segment;

constexpr Bytes kLargestSmall = kMiB;
constexpr Bytes kSmallSegment = kMiB * 2;
constexpr Bytes kLargeSegment = kMiB * 20;
constexpr Bytes kOwnSegment = kMiB * 10;  // requests from here on get a segment of their own
constexpr Bytes kOwnSegmentUnit = kMiB * 2;
constexpr Bytes kLargestRequest = kGiB * (1 << 16);

constexpr Bytes round_up(Bytes size, Bytes unit) { return {(size.count + unit.count - 1) / unit.count * unit.count}; }

Block& block_of(const Allocation& allocation) { return *static_cast<Block*>(allocation.block); }

Bytes preferred_segment(Bytes size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : round_up(size, kOwnSegmentUnit);
}

}  // namespace

CachingAllocator::CachingAllocator(Driver& driver, CachingAllocatorOptions options)
    : driver_(driver), options_(std::move(options)), uses_(driver) {}

CachingAllocator::~CachingAllocator() {
  if (reuse_event_) driver_.destroy_event(*reuse_event_);
  for (const Segment* segment = heap_.segments(); segment != nullptr; segment = segment->next) {
    memory::unpoison(segment->data, segment->size);
    driver_.free(segment->data, segment->size);
  }
}

CachingAllocator::Request CachingAllocator::request_for(Bytes size, StreamId stream) {
  const Bytes rounded = size > kLargestRequest ? size : round_up(size, memory::kBlockUnit);
  return {size, rounded, rounded <= kLargestSmall ? PoolKind::small : PoolKind::large, stream};
}

Allocation CachingAllocator::allocate(Bytes size, StreamId stream) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  const Request request = request_for(size, stream);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Block* block = obtain(request)) return hand_out(*block, request);
    lock.unlock();
    const bool again = options_.on_failure && options_.on_failure(request.size);
    lock.lock();
    if (!again) throw shortage(request);
  }
}

Block* CachingAllocator::obtain(const Request& request) {
  if (request.size > kLargestRequest) return nullptr;
  if (!uses_.idle()) collect(uses_.poll());
  if (Block* block = reuse(request)) return block;
  if (Block* block = reuse_of_other_stream(request)) return block;
  if (grow(request)) return reuse(request);
  if (!uses_.idle()) {
    collect(uses_.wait());
    if (Block* block = reuse(request)) return block;
    if (Block* block = reuse_of_other_stream(request)) return block;
  }
  return release_cached() && grow(request) ? reuse(request) : nullptr;
}

Block* CachingAllocator::reuse(const Request& request) {
  Block* block = heap_.find(request.size, request.pool, request.stream);
  if (block != nullptr) heap_.take(*block, request.size, request.stream);
  return block;
}

Block* CachingAllocator::reuse_of_other_stream(const Request& request) {
  Block* block = heap_.find_on_others(request.size, request.pool, request.stream);
  if (block == nullptr) return nullptr;
  if (!reuse_event_) reuse_event_ = driver_.create_event();
  driver_.record_event(*reuse_event_, block->stream);
  driver_.wait_event(request.stream, *reuse_event_);
  heap_.take(*block, request.size, request.stream);
  return block;
}

bool CachingAllocator::grow(const Request& request) {
  const Bytes preferred = preferred_segment(request.size);
  return grow_by(preferred, request) || (request.size < preferred && grow_by(request.size, request));
}

bool CachingAllocator::grow_by(Bytes size, const Request& request) {
  if (options_.limit && stats_.reserved + size > *options_.limit) return false;
  ++stats_.driver_allocations;
  auto* data = static_cast<std::byte*>(driver_.allocate(size));
  if (data == nullptr) return false;
  try {
    heap_.add_segment(data, size, request.pool, request.stream);
  } catch (...) {
    driver_.free(data, size);
    throw;
  }
  if (options_.free_memory == FreeMemory::poisoned) memory::poison(data, size);
  ++stats_.segments;
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return true;
}

Allocation CachingAllocator::hand_out(Block& block, const Request& request) {
  try {
    driver_.note_allocated(block.data, block.size, request.stream);
  } catch (...) {
    heap_.put(block);
    throw;
  }
  if (options_.free_memory == FreeMemory::poisoned) memory::unpoison(block.data, request.asked);
  block.requested = request.asked;
  ++stats_.allocations;
  stats_.active += block.size;
  stats_.allocated += request.asked;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return {block.data, request.asked, &block};
}

void CachingAllocator::deallocate(const Allocation& allocation) noexcept {
  if (allocation.block == nullptr) return;
  Block& block = block_of(allocation);
  const std::lock_guard lock(mutex_);
  driver_.note_freed(block.data, block.size, block.stream);
  if (options_.free_memory == FreeMemory::poisoned) memory::poison(block.data, block.size);
  ++stats_.deallocations;
  stats_.allocated -= block.requested;
  if (uses_.retire(block)) {
    give_back(block);
  } else {
    block.state = BlockState::waiting;
  }
}

void CachingAllocator::record_use(const Allocation& allocation, StreamId stream) {
  if (allocation.block == nullptr) return;
  Block& block = block_of(allocation);
  const std::lock_guard lock(mutex_);
  if (stream != block.stream) uses_.record_use(block, stream);
}

void CachingAllocator::collect(Block* ready) noexcept {
  while (ready != nullptr) give_back(*std::exchange(ready, ready->next));
}

void CachingAllocator::give_back(Block& block) noexcept {
  stats_.active -= block.size;
  heap_.put(block);
}

bool CachingAllocator::release_cached() noexcept {
  bool any = false;
  for (Segment* segment = heap_.segments(); segment != nullptr;) {
    Segment* next = segment->next;
    if (segment->in_use == 0) {
      const auto [data, size] = std::pair(segment->data, segment->size);
      heap_.remove_segment(*segment);
      memory::unpoison(data, size);
      driver_.free(data, size);
      --stats_.segments;
      stats_.reserved -= size;
      any = true;
    }
    segment = next;
  }
  return any;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  if (!uses_.idle()) collect(uses_.wait());
  release_cached();
}

AllocatorStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  AllocatorStats result = stats_;
  result.largest_free = heap_.largest_free();
  return result;
}

CachingAllocator::Held CachingAllocator::held() const {
  const std::lock_guard lock(mutex_);
  return {stats_.allocated, stats_.reserved};
}

void CachingAllocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

Bytes CachingAllocator::limit() const {
  const Bytes capacity = driver_.info().capacity;
  return options_.limit ? std::min(*options_.limit, capacity) : capacity;
}

OutOfMemory CachingAllocator::shortage(const Request& request) const {
  const bool limited = options_.limit && *options_.limit < driver_.info().capacity;
  return memory::out_of_memory({.where = options_.name.empty() ? driver_.info().name : options_.name,
                                .requested = request.asked,
                                .needed = request.size,
                                .allocated = stats_.allocated,
                                .active = stats_.active,
                                .reserved = stats_.reserved,
                                .largest_free = heap_.largest_free(),
                                .limit = limit(),
                                .limit_is = limited ? "limit" : "capacity"});
}

}  // namespace ferry
