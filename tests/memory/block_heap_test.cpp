#include "src/memory/block_heap.h"
#include "tests/memory/heap_addresses.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace ferry::memory {
namespace {

// What is wrong with the heap; empty when nothing is. Quadratic, and independent of how the heap works.
std::string fault(const BlockHeap& heap, const std::vector<Block*>& taken) {
  std::set<const Block*> missing(taken.begin(), taken.end());
  for (const Segment* segment = heap.segments(); segment != nullptr; segment = segment->next) {
    const std::byte* at = segment->data;
    int in_use = 0;
    for (const Block* block = segment->first; block != nullptr; block = block->right) {
      if (block->data != at) return "blocks leave a gap or overlap";
      if (block->segment != segment) return "a block names another segment";
      if (block->right != nullptr && block->right->left != block) return "neighbours disagree";
      const bool free = block->state == BlockState::free;
      if (free == (missing.erase(block) == 1)) return "a block's state is wrong";
      if (free && block->right != nullptr && block->right->state == BlockState::free &&
          block->right->stream == block->stream) {
        return "free neighbours were not merged";
      }
      if (free && heap.find(block->size, segment->pool, block->stream) == nullptr) return "a free block is in no bin";
      in_use += free ? 0 : 1;
      at += block->size.count;
    }
    if (at != segment->data + segment->size.count) return "blocks do not fill the segment";
    if (in_use != segment->in_use) return "a segment's count of blocks in use is wrong";
  }
  return missing.empty() ? "" : "a taken block is in no segment";
}

TEST(BlockHeap, SplitsAndMergesBack) {
  BlockHeap heap;
  heap.add_segment(address(2), kMiB * 2, PoolKind::small, kFirst);
  std::vector<Block*> taken;
  for (int i = 0; i < 3; ++i) {
    Block* block = heap.find(kKiB, PoolKind::small, kFirst);
    heap.take(*block, kKiB, kFirst);
    EXPECT_EQ(block->data, address(2) + i * 1024);
    taken.push_back(block);
  }
  EXPECT_EQ(fault(heap, taken), "");
  for (const int i : {0, 2, 1}) heap.put(*taken[i]);
  EXPECT_EQ(fault(heap, {}), "");
  EXPECT_EQ(heap.largest_free(), kMiB * 2);
}

TEST(BlockHeap, ABlockSlidesIntoTheGapOnItsLeft) {
  for (const bool first : {false, true}) {
    for (const bool free_on_the_right : {false, true}) {
      BlockHeap heap;
      heap.add_segment(address(2), kMiB, PoolKind::small, kFirst);
      std::vector<Block*> taken;
      for (int i = 0; i < 4; ++i) {
        taken.push_back(heap.find(kKiB * (i + 1), PoolKind::small, kFirst));
        heap.take(*taken.back(), kKiB * (i + 1), kFirst);
      }
      Block* const low = taken[0];
      heap.put(*taken[1]);
      if (free_on_the_right) heap.put(*taken[3]);
      if (first) heap.put(*low);
      Block* const block = taken[2];
      heap.slide(*block);
      EXPECT_EQ(block->data, address(2) + (first ? 0 : 1024));
      std::vector<Block*> left = {block};
      if (!first) left.push_back(low);
      if (!free_on_the_right) left.push_back(taken[3]);
      EXPECT_EQ(fault(heap, left), "");
    }
  }
}

TEST(BlockHeap, LargePoolKeepsARemainderOfOneMiBAttached) {
  BlockHeap heap;
  heap.add_segment(address(32), kMiB * 20, PoolKind::large, kFirst);
  Block* block = heap.find(kMiB * 19, PoolKind::large, kFirst);
  heap.take(*block, kMiB * 19, kFirst);
  EXPECT_EQ(block->size, kMiB * 20);
  heap.put(*block);
  heap.take(*block, kMiB * 19 - kBlockUnit, kFirst);
  EXPECT_EQ(block->size, kMiB * 19 - kBlockUnit);
  EXPECT_EQ(heap.largest_free(), kMiB + kBlockUnit);
}

TEST(BlockHeap, NeighboursOfTwoStreamsStayApart) {
  BlockHeap heap;
  heap.add_segment(address(2), kMiB * 2, PoolKind::small, kFirst);
  Block* first = heap.find(kMiB, PoolKind::small, kFirst);
  heap.take(*first, kMiB, kFirst);
  EXPECT_EQ(heap.find(kMiB, PoolKind::small, kSecond), nullptr);
  Block* second = heap.find_on_others(kMiB, PoolKind::small, kSecond);
  ASSERT_NE(second, nullptr);
  heap.take(*second, kMiB, kSecond);
  heap.put(*first);
  heap.put(*second);
  EXPECT_EQ(fault(heap, {}), "");
  EXPECT_EQ(heap.largest_free(), kMiB);
  EXPECT_EQ(heap.segments()->in_use, 0);
  heap.remove_segment(*heap.segments());
  EXPECT_EQ(heap.segments(), nullptr);
  EXPECT_EQ(heap.largest_free(), Bytes{});
}

TEST(BlockHeap, ASegmentInsideABlockGivesItsPlaceBack) {
  BlockHeap heap;
  heap.add_segment(address(32), kMiB * 8, PoolKind::large, kFirst);
  Block* low = heap.find(kMiB * 3, PoolKind::large, kFirst);
  heap.take(*low, kMiB * 3, kFirst);
  Segment& outer = *heap.segments();
  heap.add_segment_inside(*heap.find_highest(outer, kMiB * 2), kMiB * 2);
  Segment& inner = *heap.segments();
  EXPECT_EQ(inner.data, address(38));
  EXPECT_EQ(inner.size, kMiB * 2);
  EXPECT_EQ(outer.in_use, 2);
  EXPECT_EQ(heap.find(kMiB * 4, PoolKind::large, kFirst), nullptr);
  Block* small = heap.find(kKiB, PoolKind::small, kFirst);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(small->data, address(38));
  EXPECT_EQ(fault(heap, {low, inner.place}), "");

  heap.add_segment_inside(*heap.find_highest(outer, kMiB * 3), kMiB * 3);
  EXPECT_EQ(heap.segments()->data, address(35)) << "a whole block";
  EXPECT_EQ(heap.find_highest(outer, kBlockUnit), nullptr);
  heap.remove_segment(*heap.segments());
  heap.remove_segment(inner);
  EXPECT_EQ(fault(heap, {low}), "");
  EXPECT_EQ(heap.largest_free(), kMiB * 5);
}

TEST(BlockHeap, TightPackingSplitsFinelyAndPrefersLowAddresses) {
  BlockHeap heap;
  heap.add_segment(address(32), kMiB * 8, PoolKind::large, kFirst);
  heap.set_packing(Packing::tight);
  Block* blocks[4];
  for (Block*& block : blocks) {
    block = heap.find(kMiB * 2, PoolKind::large, kFirst);
    heap.take(*block, kMiB * 2 - kBlockUnit, kFirst);
    EXPECT_EQ(block->size, kMiB * 2 - kBlockUnit);
  }
  for (const int i : {0, 2}) heap.put(*blocks[i]);
  EXPECT_EQ(heap.find(kMiB, PoolKind::large, kFirst)->data, address(32)) << "of equal blocks the lowest";
  heap.put(*blocks[3]);
  heap.put(*blocks[1]);
  EXPECT_EQ(heap.largest_free(), kMiB * 8);
}

TEST(BlockHeap, FreeBlocksOfAllStreamsMergeForOne) {
  BlockHeap heap;
  heap.add_segment(address(32), kMiB * 12, PoolKind::large, kFirst);
  Block* blocks[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i] = heap.find(kMiB * 4, PoolKind::large, kFirst);
    heap.take(*blocks[i], kMiB * 4, kFirst);
  }
  heap.put(*blocks[1]);
  heap.take(*blocks[1], kMiB * 4, kSecond);
  for (Block* block : blocks) heap.put(*block);
  EXPECT_EQ(heap.largest_free(), kMiB * 4);
  heap.give_free_blocks_to(kSecond, Packing::tight);
  EXPECT_EQ(heap.largest_free(), kMiB * 12);
  EXPECT_EQ(fault(heap, {}), "");
  EXPECT_EQ(heap.find(kMiB, PoolKind::large, kFirst), nullptr);
  EXPECT_NE(heap.find(kMiB, PoolKind::large, kSecond), nullptr);
}

TEST(BlockHeap, RandomProgramsKeepItConsistent) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    BlockHeap heap;
    heap.set_packing(seed % 2 == 0 ? Packing::quick : Packing::tight);
    std::vector<Block*> taken;
    std::int64_t next = 64;
    for (int step = 0; step < 600; ++step) {
      const StreamId stream{static_cast<std::int32_t>(random() % 3) - 1};
      const PoolKind pool = random() % 2 == 0 ? PoolKind::small : PoolKind::large;
      const Bytes size = kBlockUnit * (1 + random() % (pool == PoolKind::small ? 400 : 8000));
      if (random() % 5 < 3) {
        Block* block = heap.find(size, pool, stream);
        if (block == nullptr && random() % 2 == 0) block = heap.find_on_others(size, pool, stream);
        if (block == nullptr) {
          heap.add_segment(address(next), kMiB * 8, pool, stream);
          next += 9;
          block = heap.find(size, pool, stream);
        }
        heap.take(*block, size, stream);
        taken.push_back(block);
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        heap.put(*taken.back());
        taken.pop_back();
      }
      ASSERT_EQ(fault(heap, taken), "") << "seed " << seed << ", step " << step;
    }
    for (Block* block : taken) heap.put(*block);
    while (heap.segments() != nullptr) heap.remove_segment(*heap.segments());
    EXPECT_EQ(heap.largest_free(), Bytes{});
  }
}

}  // namespace
}  // namespace ferry::memory
