// The part of CachingAllocator that keeps a budget.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/check.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/room.h"

namespace ferry {
namespace {

using memory::Block;
using memory::BlockHeap;
using memory::BlockState;
using memory::Packing;
using memory::PoolKind;
using memory::Segment;

constexpr StreamId kCompute{0};

}  // namespace

void CachingAllocator::begin_budget(Bytes limit) {
  FERRY_CHECK(limit > Bytes{}, InvalidArgument, "a memory budget has to be positive, not {} bytes", limit.count);
  const std::lock_guard lock(mutex_);
  FERRY_CHECK(!budget_, InvalidArgument, "{} has a memory budget already, of {}; end it first", name(),
              to_string(*budget_));
  const Bytes budget = std::min(limit, options_.limit.value_or(limit));
  if (!uses_.idle()) collect(uses_.wait());
  release_small_segments();
  require_room_for(budget);
  release_cached();
  order_compute_after_all();
  const Segment* arena = take_arena(budget);
  if (arena != nullptr) free_log_.begin(arena->size);
  heap_.give_free_blocks_to(kCompute, Packing::tight);
  heap_.set_free_log(arena, &free_log_);
  arena_ = arena;
  budget_ = budget;
}

// Throws: OutOfMemory when what cannot be returned is larger.
void CachingAllocator::require_room_for(Bytes budget) const {
  Bytes held;
  for (const Segment* segment = heap_.segments(); segment != nullptr; segment = segment->next) {
    if (segment->in_use > 0 && segment->place == nullptr) held += segment->size;
  }
  if (held <= budget) return;
  throw OutOfMemory(
      fmt::format(
          "a budget of {} is too small for {}: {} are allocated there already, in segments of {} together; begin "
          "the budget before those tensors are made, or give some back",
          to_string(budget), name(), to_string(stats_.allocated), to_string(held)),
      {budget, stats_.allocated, stats_.reserved, budget});
}

// So that all blocks may belong to the compute stream. Harmless without a budget, should a driver call fail half way.
void CachingAllocator::order_compute_after_all() {
  std::vector<StreamId> streams;
  heap_.for_each_block([&](Block& block) {
    if (block.state != BlockState::free) {
      uses_.change_owner(block, kCompute);
    } else if (block.stream != kCompute && std::find(streams.begin(), streams.end(), block.stream) == streams.end()) {
      streams.push_back(block.stream);
    }
  });
  for (const StreamId stream : streams) order_after(kCompute, stream);
}

const Segment* CachingAllocator::take_arena(Bytes budget) {
  const Bytes left{(budget - stats_.reserved).count / memory::kBlockUnit.count * memory::kBlockUnit.count};
  if (left == Bytes{}) return nullptr;
  if (const Segment* arena = add_segment(left, PoolKind::large, kCompute)) return arena;
  throw OutOfMemory(
      fmt::format(
          "{} does not have the {} in one piece that a budget of {} still needs ({} are reserved already): other "
          "programs or runtimes use the rest; choose a smaller budget",
          name(), to_string(left), to_string(budget), to_string(stats_.reserved)),
      {left, stats_.allocated, stats_.reserved, budget});
}

void CachingAllocator::end_budget() noexcept {
  const std::lock_guard lock(mutex_);
  if (!budget_) return;
  release_small_segments();
  heap_.set_packing(Packing::quick);
  heap_.set_free_log(nullptr, nullptr);
  arena_ = nullptr;
  budget_.reset();
}

void CachingAllocator::set_on_failure(std::function<bool(Bytes)> on_failure) {
  std::shared_ptr<const std::function<bool(Bytes)>> shared;
  if (on_failure) shared = std::make_shared<const std::function<bool(Bytes)>>(std::move(on_failure));
  const std::lock_guard lock(mutex_);
  on_failure_.swap(shared);
}

Block* CachingAllocator::obtain_in_budget(const Request& request) {
  if (request.size > *budget_) return nullptr;
  if (arena_ != nullptr) free_log_.keep_marks();
  if (!uses_.idle()) collect(uses_.poll());
  for (;;) {
    if (Block* block = fit_in_budget(request)) return block;
    if (uses_.idle()) break;
    collect(uses_.wait_on_device());
  }
  const bool cut = request.pool == PoolKind::small && cut_small_segment(request.size);
  return cut ? reuse_in_budget(request) : nullptr;
}

Block* CachingAllocator::fit_in_budget(const Request& request) {
  if (Block* block = reuse_in_budget(request)) return block;
  const bool small = request.pool == PoolKind::small;
  bool changed = small && cut_small_segment(kSmallSegment);
  if (!changed) changed = release_small_segments() && (!small || cut_small_segment(kSmallSegment));
  return changed ? reuse_in_budget(request) : nullptr;
}

Block* CachingAllocator::reuse_in_budget(const Request& request) {
  Block* block = heap_.find(request.size, request.pool, kCompute);
  if (block == nullptr) return nullptr;
  if (request.stream != kCompute) order_after_use(request.stream, block->data, request.size);
  heap_.take(*block, request.size, kCompute);
  return use_in_budget(*block, request.stream);
}

Block* CachingAllocator::use_in_budget(Block& block, StreamId stream) {
  if (stream == kCompute) return &block;
  try {
    uses_.record_use(block, stream);
  } catch (...) {
    heap_.put(block);
    throw;
  }
  return &block;
}

Allocation CachingAllocator::try_allocate_at(void* address, Bytes size, StreamId stream) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  const Request request = request_for(size, stream);
  const std::lock_guard lock(mutex_);
  Block* const block = take_at(static_cast<std::byte*>(address), request);
  return block == nullptr ? Allocation{} : hand_out(*block, request);
}

Block* CachingAllocator::take_at(std::byte* address, const Request& request) {
  if (!budget_ || arena_ == nullptr || request.pool != PoolKind::large || request.size > arena_->size) return nullptr;
  if (address < arena_->data || address > arena_->data + (arena_->size - request.size).count) return nullptr;
  free_log_.keep_marks();
  if (!uses_.idle()) collect(uses_.poll());
  if (!free_range(address, request.size)) return nullptr;
  if (request.stream != kCompute) order_after_use(request.stream, address, request.size);
  Block& free = BlockHeap::block_at(*arena_, address);
  return use_in_budget(heap_.take_at(free, address, request.size, kCompute), request.stream);
}

// The stream waits until the compute stream is done with the addresses, which are free.
void CachingAllocator::order_after_use(StreamId stream, std::byte* address, Bytes size) {
  if (arena_ != nullptr && address >= arena_->data && address < arena_->data + arena_->size.count) {
    if (const std::optional<EventId> event = free_log_.free_since({address, address + size.count}))
      return driver_.wait_event(stream, *event);
  }
  order_after(stream, kCompute);
}

// Of the arena, in order of addresses.
std::vector<memory::FreeLog::Range> CachingAllocator::free_ranges(PoolKind pool) const {
  std::vector<memory::FreeLog::Range> free;
  const auto add = [&](const Segment& segment) {
    for (const Block* block = segment.first; block != nullptr; block = block->right)
      if (block->state == BlockState::free) free.push_back({block->data, block->data + block->size.count});
  };
  if (pool == PoolKind::large) {
    add(*arena_);
  } else {
    for (const Block* block = arena_->first; block != nullptr; block = block->right)
      if (block->holds != nullptr) add(*block->holds);
  }
  return free;
}

// Null: nowhere is better than where allocate_at would have it.
Block* CachingAllocator::take_early(std::byte* address, const Request& request) {
  if (!budget_ || arena_ == nullptr || request.stream == kCompute || request.size > arena_->size) return nullptr;
  free_log_.keep_marks();
  if (!uses_.idle()) collect(uses_.poll());
  const std::vector<memory::FreeLog::Range> free = free_ranges(request.pool);
  memory::FreeLog::Range wished;
  if (address != nullptr && request.pool == PoolKind::large) wished = {address, address + request.size.count};
  const bool is_free = std::ranges::any_of(
      free, [&](const auto& range) { return range.begin <= wished.begin && wished.end <= range.end; });
  const auto place =
      free_log_.earliest(request.size, free, wished, is_free ? free_log_.free_since(wished) : std::nullopt);
  if (!place) return nullptr;
  driver_.wait_event(request.stream, place->since);
  const Block* const outer = &BlockHeap::block_at(*arena_, place->address);
  Block& block = BlockHeap::block_at(outer->holds != nullptr ? *outer->holds : *arena_, place->address);
  return use_in_budget(heap_.take_at(block, place->address, request.size, kCompute), request.stream);
}

// Whether the range is free once what waits for other streams has passed, which the compute stream waits for, and
// segments of the small pool that nobody uses are gone.
bool CachingAllocator::free_range(std::byte* address, Bytes size) {
  for (;;) {
    bool holds_unused = false;
    Block* waiting = nullptr;
    const std::byte* const end = address + size.count;
    for (Block* block = &BlockHeap::block_at(*arena_, address); block != nullptr && block->data < end;
         block = block->right) {
      const bool is_unused = block->holds != nullptr && block->holds->in_use == 0;
      if (block->state == BlockState::allocated && !is_unused) return false;
      if (block->state == BlockState::waiting) waiting = block;
      holds_unused = holds_unused || is_unused;
    }
    if (holds_unused) {
      release_small_segments();
    } else if (waiting != nullptr) {
      collect(uses_.wait_on_device(*waiting));
    } else {
      return true;
    }
  }
}

CachingAllocator::Extent CachingAllocator::extent_of(Bytes size) {
  const Request request = request_for(size, kCompute);
  return {request.size, request.pool == PoolKind::large};
}

CachingAllocator::Arena CachingAllocator::arena() const {
  const std::lock_guard lock(mutex_);
  if (arena_ == nullptr) return {};
  Arena result{.data = arena_->data, .size = arena_->size, .taken = {}};
  for (const Block* block = arena_->first; block != nullptr; block = block->right) {
    if (block->state != BlockState::allocated) continue;
    result.taken.push_back({.address = block->data, .size = block->size, .is_small_pool = block->holds != nullptr});
  }
  return result;
}

// A segment of the small pool from the highest free address: of the arena if it has room.
bool CachingAllocator::cut_small_segment(Bytes size) {
  Block* place = arena_ != nullptr ? heap_.find_highest(*arena_, size) : nullptr;
  for (const Segment* segment = heap_.segments(); place == nullptr && segment != nullptr; segment = segment->next) {
    if (segment->pool == PoolKind::large && segment != arena_) place = heap_.find_highest(*segment, size);
  }
  if (place == nullptr) return false;
  heap_.add_segment_inside(*place, size);
  return true;
}

bool CachingAllocator::release_small_segments() noexcept {
  bool any = false;
  for (Segment* segment = heap_.segments(); segment != nullptr;) {
    Segment* next = segment->next;
    if (segment->place != nullptr && segment->in_use == 0) {
      heap_.remove_segment(*segment);
      any = true;
    }
    segment = next;
  }
  return any;
}

std::optional<std::vector<void*>> CachingAllocator::cheapest_room(Bytes size,
                                                                  const std::function<double(void*)>& cost) const {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "there is no room of {} bytes", size.count);
  if (size == Bytes{}) return std::vector<void*>{};
  const Request request = request_for(size, kCompute);
  const std::lock_guard lock(mutex_);
  return memory::cheapest_room(heap_.segments(), {request.size, request.pool, budget_.has_value()}, cost);
}

}  // namespace ferry
