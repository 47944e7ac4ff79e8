#include "src/memory/block_bins.h"

#include <bit>

namespace ferry::memory {
namespace {

constexpr int kStepBits = 5;  // 32 bins a doubling
constexpr std::uint64_t kExact = std::uint64_t{2} << kStepBits;

}  // namespace

std::size_t BlockBins::index(Bytes size) noexcept {
  const auto units = static_cast<std::uint64_t>(size.count / kBlockUnit.count);
  if (units < kExact) return units;
  const auto octave = static_cast<int>(std::bit_width(units)) - 1;
  const std::uint64_t step = (units >> (octave - kStepBits)) - (std::uint64_t{1} << kStepBits);
  return kExact + (static_cast<std::uint64_t>(octave - kStepBits - 1) << kStepBits) + step;
}

void BlockBins::insert(Block& block, Ties ties) noexcept {
  const auto precedes = [&](const Block& other) {
    return other.size < block.size ||
           (ties == Ties::lowest_first && other.size == block.size && other.data < block.data);
  };
  const std::size_t bin = index(block.size);
  Block* before = nullptr;
  Block* after = heads_[bin];
  while (after != nullptr && precedes(*after)) {
    before = after;
    after = after->next;
  }
  block.previous = before;
  block.next = after;
  (before != nullptr ? before->next : heads_[bin]) = &block;
  if (after != nullptr) after->previous = &block;
  occupied_[bin / 64] |= std::uint64_t{1} << (bin % 64);
}

void BlockBins::remove(Block& block) noexcept {
  if (block.next != nullptr) block.next->previous = block.previous;
  if (block.previous != nullptr) {
    block.previous->next = block.next;
  } else {
    const std::size_t bin = index(block.size);
    heads_[bin] = block.next;
    if (block.next == nullptr) occupied_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }
  block.previous = block.next = nullptr;
}

Block* BlockBins::best_fit(Bytes size) const noexcept {
  const std::size_t bin = index(size);
  for (Block* block = heads_[bin]; block != nullptr; block = block->next) {
    if (block->size >= size) return block;
  }
  std::size_t word = (bin + 1) / 64;
  if (word >= kWords) return nullptr;
  std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << ((bin + 1) % 64));
  while (bits == 0) {
    if (++word == kWords) return nullptr;
    bits = occupied_[word];
  }
  return heads_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
}

Bytes BlockBins::largest() const noexcept {
  for (std::size_t word = kWords; word-- > 0;) {
    if (occupied_[word] == 0) continue;
    const Block* block = heads_[word * 64 + static_cast<std::size_t>(std::bit_width(occupied_[word])) - 1];
    while (block->next != nullptr) block = block->next;
    return block->size;
  }
  return {};
}

}  // namespace ferry::memory
