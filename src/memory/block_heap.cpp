#include "src/memory/block_heap.h"

#include <algorithm>

namespace ferry::memory {
namespace {

constexpr Bytes kLargestRemainder = kMiB;  // that stays attached to a block of the large pool

bool splits(const Block& block, Bytes size) {
  const Bytes rest = block.size - size;
  return block.segment->pool == PoolKind::small ? rest >= kBlockUnit : rest > kLargestRemainder;
}

std::size_t slot(StreamId stream) { return static_cast<std::size_t>(stream.value + 1); }

}  // namespace

BlockBins& BlockHeap::bins_of(const Block& block) noexcept {
  return bins(*streams_[slot(block.stream)], block.segment->pool);
}

void BlockHeap::add_segment(std::byte* data, Bytes size, PoolKind pool, StreamId stream) {
  if (slot(stream) >= streams_.size()) streams_.resize(slot(stream) + 1);
  auto& stream_bins = streams_[slot(stream)];
  if (stream_bins == nullptr) stream_bins = std::make_unique<StreamBins>();
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
  bins_of(*block).insert(*block);
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
  segment_pool_.put(&segment);
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

void BlockHeap::take(Block& block, Bytes size, StreamId stream) {
  if (slot(stream) >= streams_.size()) streams_.resize(slot(stream) + 1);
  auto& stream_bins = streams_[slot(stream)];
  if (stream_bins == nullptr) stream_bins = std::make_unique<StreamBins>();
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
  bins_of(*rest).insert(*rest);
}

void BlockHeap::put(Block& block) noexcept {
  block.state = BlockState::free;
  --block.segment->in_use;
  Block* merged = &block;
  const auto merges = [](const Block* a, const Block* b) {
    return a != nullptr && b != nullptr && a->state == BlockState::free && b->state == BlockState::free &&
           a->stream == b->stream;
  };
  if (merges(merged, merged->right)) {
    bins_of(*merged->right).remove(*merged->right);
    absorb_right(*merged);
  }
  if (merges(merged->left, merged)) {
    merged = merged->left;
    bins_of(*merged).remove(*merged);
    absorb_right(*merged);
  }
  bins_of(*merged).insert(*merged);
}

void BlockHeap::absorb_right(Block& block) noexcept {
  Block* right = block.right;
  block.size += right->size;
  block.right = right->right;
  if (block.right != nullptr) block.right->left = &block;
  blocks_.put(right);
}

Bytes BlockHeap::largest_free() const noexcept {
  Bytes largest;
  for (const auto& stream : streams_) {
    if (stream != nullptr) largest = std::max({largest, stream->small.largest(), stream->large.largest()});
  }
  return largest;
}

}  // namespace ferry::memory
