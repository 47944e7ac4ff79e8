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
constexpr Bytes kLargeSegment = kMiB * 20;
constexpr Bytes kOwnSegment = kMiB * 10;  // requests from here on get a segment of their own
constexpr Bytes kOwnSegmentUnit = kMiB * 2;
constexpr Bytes kLargestRequest = kGiB * (1 << 16);

constexpr Bytes round_up(Bytes size, Bytes unit) { return {(size.count + unit.count - 1) / unit.count * unit.count}; }

Block& block_of(const Allocation& allocation) { return *static_cast<Block*>(allocation.block); }

}  // namespace

CachingAllocator::CachingAllocator(Driver& driver, CachingAllocatorOptions options)
    : driver_(driver), options_(std::move(options)), uses_(driver), free_log_(driver, StreamId{0}) {
  if (options_.on_failure) on_failure_ = std::make_shared<const std::function<bool(Bytes)>>(options_.on_failure);
}

CachingAllocator::~CachingAllocator() {
  if (reuse_event_) driver_.destroy_event(*reuse_event_);
  for (const Segment* segment = heap_.segments(); segment != nullptr; segment = segment->next) {
    if (segment->place != nullptr) continue;
    memory::unpoison(segment->data, segment->size);
    driver_.free(segment->data, segment->size);
  }
}

CachingAllocator::Request CachingAllocator::request_for(Bytes size, StreamId stream) {
  const Bytes rounded = size > kLargestRequest ? size : round_up(size, memory::kBlockUnit);
  return {size, rounded, rounded <= kLargestSmall ? PoolKind::small : PoolKind::large, stream};
}

Allocation CachingAllocator::allocate(Bytes size, StreamId stream) { return allocate_at(nullptr, size, stream); }

Allocation CachingAllocator::allocate_at(void* address, Bytes size, StreamId stream) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  const Request request = request_for(size, stream);
  std::unique_lock lock(mutex_);
  if (address != nullptr) {
    if (Block* block = take_at(static_cast<std::byte*>(address), request)) return hand_out(*block, request);
  }
  for (;;) {
    if (Block* block = obtain(request)) return hand_out(*block, request);
    auto on_failure = on_failure_;
    lock.unlock();
    const bool again = on_failure && (*on_failure)(request.size);
    on_failure.reset();  // perhaps the last owner, whose destructor may deallocate
    lock.lock();
    if (!again) throw shortage(request);
  }
}

Allocation CachingAllocator::allocate_early(void* address, Bytes size, StreamId stream) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  const Request request = request_for(size, stream);
  {
    const std::lock_guard lock(mutex_);
    if (Block* block = take_early(static_cast<std::byte*>(address), request)) return hand_out(*block, request);
  }
  return allocate_at(address, size, stream);
}

Allocation CachingAllocator::try_allocate(Bytes size, StreamId stream) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  const Request request = request_for(size, stream);
  const std::lock_guard lock(mutex_);
  Block* const block = obtain(request);
  return block == nullptr ? Allocation{} : hand_out(*block, request);
}

Block* CachingAllocator::obtain(const Request& request) {
  if (request.size > kLargestRequest) return nullptr;
  if (budget_) return obtain_in_budget(request);
  if (!uses_.idle()) collect(uses_.poll());
  if (Block* block = reuse(request)) return block;
  if (Block* block = reuse_of_other_stream(request)) return block;
  if (grow(request)) return reuse(request);
  if (!uses_.idle()) {
    collect(uses_.wait());
    if (Block* block = reuse(request)) return block;
    if (Block* block = reuse_of_other_stream(request)) return block;
  }
  if (!release_cached()) return nullptr;
  if (Block* block = reuse(request)) return block;
  if (Block* block = reuse_of_other_stream(request)) return block;
  return grow(request) ? reuse(request) : nullptr;
}

Block* CachingAllocator::reuse(const Request& request) {
  Block* block = heap_.find(request.size, request.pool, request.stream);
  if (block != nullptr) heap_.take(*block, request.size, request.stream);
  return block;
}

Block* CachingAllocator::reuse_of_other_stream(const Request& request) {
  Block* block = heap_.find_on_others(request.size, request.pool, request.stream);
  if (block == nullptr) return nullptr;
  order_after(request.stream, block->stream);
  heap_.take(*block, request.size, request.stream);
  return block;
}

void CachingAllocator::order_after(StreamId stream, StreamId earlier) {
  if (!reuse_event_) reuse_event_ = driver_.create_event();
  driver_.record_event(*reuse_event_, earlier);
  driver_.wait_event(stream, *reuse_event_);
}

bool CachingAllocator::grow(const Request& request) {
  Bytes preferred = kSmallSegment;
  if (request.pool == PoolKind::large) {
    preferred = request.size < kOwnSegment ? kLargeSegment : round_up(request.size, kOwnSegmentUnit);
  }
  return grow_by(preferred, request) || (request.size < preferred && grow_by(request.size, request));
}

bool CachingAllocator::grow_by(Bytes size, const Request& request) {
  if (options_.limit && stats_.reserved + size > *options_.limit) return false;
  return add_segment(size, request.pool, request.stream) != nullptr;
}

// The only place where reserved memory grows.
Segment* CachingAllocator::add_segment(Bytes size, PoolKind pool, StreamId stream) {
  FERRY_CHECK(!budget_, Error, "{}: a segment of {} was to be taken while a budget lasts", name(), to_string(size));
  ++stats_.driver_allocations;
  auto* data = static_cast<std::byte*>(driver_.allocate(size));
  if (data == nullptr) return nullptr;
  Segment* segment = nullptr;
  try {
    segment = &heap_.add_segment(data, size, pool, stream);
  } catch (...) {
    driver_.free(data, size);
    throw;
  }
  if (options_.free_memory == FreeMemory::poisoned) memory::poison(data, size);
  ++stats_.segments;
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return segment;
}

Allocation CachingAllocator::hand_out(Block& block, const Request& request) {
  try {
    driver_.note_allocated(block.data, block.size, request.stream);
  } catch (...) {
    uses_.forget(block);
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

void CachingAllocator::close_use(const Allocation& allocation, StreamId stream) {
  if (allocation.block == nullptr) return;
  const std::lock_guard lock(mutex_);
  uses_.close_use(block_of(allocation), stream);
}

void CachingAllocator::end_use(const Allocation& allocation, StreamId stream) noexcept {
  if (allocation.block == nullptr) return;
  const std::lock_guard lock(mutex_);
  uses_.end_use(block_of(allocation), stream);
}

void CachingAllocator::collect(Block* ready) noexcept {
  while (ready != nullptr) give_back(*std::exchange(ready, ready->next));
}

void CachingAllocator::give_back(Block& block) noexcept {
  stats_.active -= block.size;
  heap_.put(block);
}

bool CachingAllocator::release_cached() noexcept {
  bool any = release_small_segments();
  if (budget_) return any;
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
  if (!uses_.idle()) collect(budget_ ? uses_.poll() : uses_.wait());
  release_cached();
}

AllocatorStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  AllocatorStats result = stats_;
  result.largest_free = heap_.largest_free();
  result.limit = own_limit().value_or(Bytes{});
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

std::optional<Bytes> CachingAllocator::own_limit() const { return budget_ ? budget_ : options_.limit; }

Bytes CachingAllocator::limit() const {
  const Bytes capacity = driver_.info().capacity;
  return std::min(own_limit().value_or(capacity), capacity);
}

OutOfMemory CachingAllocator::shortage(const Request& request) const {
  const bool limited = options_.limit && *options_.limit < driver_.info().capacity;
  return memory::out_of_memory({.where = name(),
                                .requested = request.asked,
                                .needed = request.size,
                                .allocated = stats_.allocated,
                                .active = stats_.active,
                                .reserved = stats_.reserved,
                                .largest_free = heap_.largest_free(),
                                .limit = limit(),
                                .limit_is = budget_ ? "budget" : (limited ? "limit" : "capacity")});
}

}  // namespace ferry
