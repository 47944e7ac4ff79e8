#include "src/memory/block_heap.h"

#include <algorithm>
#include <utility>

namespace ferry::memory {
namespace {

constexpr Bytes kLargestRemainder = kMiB;  // that stays attached to a block of the large pool

std::size_t slot(StreamId stream) { return static_cast<std::size_t>(stream.value + 1); }

bool merges(const Block& free, const Block* neighbour) {
  return neighbour != nullptr && neighbour->state == BlockState::free && neighbour->stream == free.stream;
}

}  // namespace

BlockBins& BlockHeap::bins_of(const Block& block) noexcept {
  return bins(*streams_[slot(block.stream)], block.segment->pool);
}

BlockHeap::StreamBins& BlockHeap::make_bins(StreamId stream) {
  if (slot(stream) >= streams_.size()) streams_.resize(slot(stream) + 1);
  auto& stream_bins = streams_[slot(stream)];
  if (stream_bins == nullptr) stream_bins = std::make_unique<StreamBins>();
  return *stream_bins;
}

void BlockHeap::insert(Block& block) noexcept {
  bins_of(block).insert(block, packing_ == Packing::tight ? Ties::lowest_first : Ties::latest_first);
}

bool BlockHeap::splits(const Block& block, Bytes size) const noexcept {
  const Bytes rest = block.size - size;
  const bool finely = block.segment->pool == PoolKind::small || packing_ == Packing::tight;
  return finely ? rest >= kBlockUnit : rest > kLargestRemainder;
}

Segment& BlockHeap::add_segment(std::byte* data, Bytes size, PoolKind pool, StreamId stream) {
  make_bins(stream);
  Block* block = blocks_.get();
  Segment* segment = nullptr;
  try {
    segment = segment_pool_.get();
  } catch (...) {
    blocks_.put(block);
    throw;
  }
  *segment = {.data = data, .size = size, .pool = pool, .first = block, .next = segments_};
  if (segments_ != nullptr) segments_->previous = segment;
  segments_ = segment;
  *block = {.data = data, .size = size, .stream = stream, .segment = segment};
  insert(*block);
  return *segment;
}

void BlockHeap::add_segment_inside(Block& block, Bytes size) {
  Block* place = &block;
  Block* high = block.size > size ? blocks_.get() : nullptr;
  Segment* segment = nullptr;
  try {
    segment = &add_segment(block.data + (block.size - size).count, size, PoolKind::small, block.stream);
  } catch (...) {
    if (high != nullptr) blocks_.put(high);
    throw;
  }
  bins_of(block).remove(block);
  if (high != nullptr) {
    block.size -= size;
    *high = {.data = segment->data,
             .size = size,
             .stream = block.stream,
             .segment = block.segment,
             .left = &block,
             .right = block.right};
    if (high->right != nullptr) high->right->left = high;
    block.right = high;
    insert(block);
    place = high;
  }
  place->state = BlockState::allocated;
  ++place->segment->in_use;
  place->holds = segment;
  segment->place = place;
}

void BlockHeap::remove_segment(Segment& segment) noexcept {
  for (Block* block = segment.first; block != nullptr;) {
    Block* right = block->right;
    bins_of(*block).remove(*block);
    blocks_.put(block);
    block = right;
  }
  if (segment.next != nullptr) segment.next->previous = segment.previous;
  (segment.previous != nullptr ? segment.previous->next : segments_) = segment.next;
  Block* place = segment.place;
  segment_pool_.put(&segment);
  if (place == nullptr) return;
  place->holds = nullptr;
  put(*place);
}

Block* BlockHeap::find(Bytes size, PoolKind pool, StreamId stream) const noexcept {
  if (slot(stream) >= streams_.size() || streams_[slot(stream)] == nullptr) return nullptr;
  return bins(*streams_[slot(stream)], pool).best_fit(size);
}

Block* BlockHeap::find_on_others(Bytes size, PoolKind pool, StreamId stream) const noexcept {
  Block* best = nullptr;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (i == slot(stream) || streams_[i] == nullptr) continue;
    Block* block = bins(*streams_[i], pool).best_fit(size);
    if (block != nullptr && (best == nullptr || block->size < best->size)) best = block;
  }
  return best;
}

Block* BlockHeap::find_highest(const Segment& segment, Bytes size) const noexcept {
  Block* highest = nullptr;
  for (Block* block = segment.first; block != nullptr; block = block->right) {
    if (block->state == BlockState::free && block->size >= size) highest = block;
  }
  return highest;
}

void BlockHeap::take(Block& block, Bytes size, StreamId stream) {
  make_bins(stream);
  Block* rest = splits(block, size) ? blocks_.get() : nullptr;
  bins_of(block).remove(block);
  block.stream = stream;
  block.state = BlockState::allocated;
  ++block.segment->in_use;
  if (rest == nullptr) return;
  *rest = {.data = block.data + size.count,
           .size = block.size - size,
           .stream = stream,
           .segment = block.segment,
           .left = &block,
           .right = block.right};
  if (rest->right != nullptr) rest->right->left = rest;
  block.right = rest;
  block.size = size;
  insert(*rest);
}

Block& BlockHeap::block_at(const Segment& segment, const std::byte* address) noexcept {
  Block* block = segment.first;
  while (address >= block->data + block->size.count) block = block->right;
  return *block;
}

Block& BlockHeap::take_at(Block& block, std::byte* begin, Bytes size, StreamId stream) {
  if (begin == block.data) {
    take(block, size, stream);
    return block;
  }
  const Bytes before{begin - block.data};
  Block* const behind = blocks_.get();
  *behind = {.data = begin,
             .size = block.size - before,
             .stream = block.stream,
             .segment = block.segment,
             .left = &block,
             .right = block.right};
  bins_of(block).remove(block);
  block.size = before;
  if (behind->right != nullptr) behind->right->left = behind;
  block.right = behind;
  insert(block);
  insert(*behind);
  try {
    take(*behind, size, stream);
  } catch (...) {
    bins_of(*behind).remove(*behind);
    bins_of(block).remove(block);
    absorb_right(block);
    insert(block);
    throw;
  }
  return *behind;
}

void BlockHeap::put(Block& block) noexcept {
  if (lies_in_logged(*block.segment)) log_->freed(block.data, block.size);
  block.state = BlockState::free;
  --block.segment->in_use;
  Block* merged = &block;
  if (merges(*merged, merged->right)) {
    bins_of(*merged->right).remove(*merged->right);
    absorb_right(*merged);
  }
  if (merges(*merged, merged->left)) {
    merged = merged->left;
    bins_of(*merged).remove(*merged);
    absorb_right(*merged);
  }
  insert(*merged);
}

void BlockHeap::slide(Block& block) noexcept {
  Block& gap = *block.left;
  if (lies_in_logged(*block.segment)) log_->freed(block.data, block.size);
  bins_of(gap).remove(gap);
  if (block.holds != nullptr) shift(*block.holds, gap.data - block.data);
  block.data = gap.data;
  gap.data += block.size.count;
  block.left = gap.left;
  gap.right = block.right;
  gap.left = &block;
  block.right = &gap;
  (block.left != nullptr ? block.left->right : block.segment->first) = &block;
  if (gap.right != nullptr) gap.right->left = &gap;
  if (merges(gap, gap.right)) {
    bins_of(*gap.right).remove(*gap.right);
    absorb_right(gap);
  }
  insert(gap);
}

void BlockHeap::move_segment(Block& from, Block& to) noexcept {
  to.holds = std::exchange(from.holds, nullptr);
  to.holds->place = &to;
  shift(*to.holds, to.data - from.data);
  put(from);
}

// Equal sizes in a bin are ordered by address.
void BlockHeap::shift(Segment& segment, std::ptrdiff_t distance) noexcept {
  segment.data += distance;
  for (Block* block = segment.first; block != nullptr; block = block->right) {
    const bool is_free = block->state == BlockState::free;
    if (is_free) bins_of(*block).remove(*block);
    block->data += distance;
    if (is_free) insert(*block);
  }
}

void BlockHeap::absorb_right(Block& block) noexcept {
  Block* right = block.right;
  block.size += right->size;
  block.right = right->right;
  if (block.right != nullptr) block.right->left = &block;
  blocks_.put(right);
}

void BlockHeap::give_free_blocks_to(StreamId stream, Packing packing) {
  make_bins(stream);
  packing_ = packing;
  for_each_block([&](Block& block) {
    if (block.state == BlockState::free) bins_of(block).remove(block);
  });
  for_each_block([&](Block& block) {
    if (block.state != BlockState::free) return;
    block.stream = stream;
    while (block.right != nullptr && block.right->state == BlockState::free) absorb_right(block);
    insert(block);
  });
}

Bytes BlockHeap::largest_free() const noexcept {
  Bytes largest;
  for (const auto& stream : streams_) {
    if (stream != nullptr) largest = std::max({largest, stream->small.largest(), stream->large.largest()});
  }
  return largest;
}

}  // namespace ferry::memory
