#include "src/memory/room.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

#include "src/memory/block_heap.h"
#include "tests/memory/heap_addresses.h"

namespace ferry::memory {
namespace {

constexpr double kStays = std::numeric_limits<double>::infinity();

// A segment of the large pool whose blocks of 4 MiB are all taken.
struct FourBlocks {
  FourBlocks() {
    heap.set_packing(Packing::tight);
    heap.add_segment(address(64), kMiB * 16, PoolKind::large, kFirst);
    for (Block*& block : blocks) {
      block = heap.find(kMiB * 4, PoolKind::large, kFirst);
      heap.take(*block, kMiB * 4, kFirst);
    }
  }
  std::optional<std::vector<void*>> room(Bytes size, std::vector<double> costs) const {
    return cheapest_room(heap.segments(), {size, PoolKind::large, true}, [&](void* at) {
      return costs[static_cast<std::size_t>((static_cast<std::byte*>(at) - address(64)) / (kMiB * 4).count)];
    });
  }
  using Addresses = std::vector<void*>;

  BlockHeap heap;
  Block* blocks[4];
};

TEST(Room, IsTheCheapestWindow) {
  const FourBlocks memory;
  using Addresses = FourBlocks::Addresses;
  EXPECT_EQ(memory.room(kMiB * 4, {3, 1, 2, 4}), Addresses{address(68)});
  EXPECT_EQ(memory.room(kMiB * 5, {3, 1, 2, 4}), (Addresses{address(68), address(72)}));
  EXPECT_EQ(memory.room(kMiB * 8, {1, 9, 2, 3}), (Addresses{address(72), address(76)}));
  EXPECT_EQ(memory.room(kMiB * 16, {1, 1, 1, 1})->size(), 4U);
  EXPECT_EQ(memory.room(kMiB * 16 + kBlockUnit, {1, 1, 1, 1}), std::nullopt);
}

TEST(Room, WhatMustStayStays) {
  const FourBlocks memory;
  EXPECT_EQ(memory.room(kMiB * 8, {1, kStays, 1, 5}), (FourBlocks::Addresses{address(72), address(76)}));
  EXPECT_EQ(memory.room(kMiB * 12, {1, kStays, 1, 1}), std::nullopt);
}

TEST(Room, SmallCostsBesideLargeOnesKeepTheirDigits) {
  const FourBlocks memory;
  EXPECT_EQ(memory.room(kMiB * 4, {1e300, 2e-9, 1e-9, 1e300}), FourBlocks::Addresses{address(72)});
}

TEST(Room, IsThereWhereBlocksAreFreeOrWait) {
  FourBlocks memory;
  memory.heap.put(*memory.blocks[1]);
  memory.blocks[2]->state = BlockState::waiting;
  EXPECT_EQ(memory.room(kMiB * 8, {0, 0, 0, 0}), FourBlocks::Addresses{});
  EXPECT_EQ(memory.room(kMiB * 9, {0, 0, 0, 0})->size(), 1U) << "a free block is better than one that costs nothing";
}

TEST(Room, BlocksOfTwoStreamsMakeNoWindow) {
  FourBlocks memory;
  memory.heap.put(*memory.blocks[1]);
  memory.heap.take(*memory.blocks[1], kMiB * 4, kSecond);
  EXPECT_EQ(memory.room(kMiB * 8, {1, 1, 5, 5}), (FourBlocks::Addresses{address(72), address(76)}));
}

TEST(Room, OfASmallRequestIsInsideOrInsteadOfASmallSegment) {
  BlockHeap heap;
  heap.set_packing(Packing::tight);
  heap.add_segment(address(64), kMiB * 4, PoolKind::large, kFirst);
  heap.add_segment_inside(*heap.find(kMiB * 2, PoolKind::large, kFirst), kMiB * 2);
  Block* large = heap.find(kMiB * 2, PoolKind::large, kFirst);
  heap.take(*large, kMiB * 2, kFirst);
  Block* small[2];
  for (Block*& block : small) {
    block = heap.find(kMiB, PoolKind::small, kFirst);
    heap.take(*block, kMiB, kFirst);
  }
  const auto room = [&](Bytes size, double large_cost) {
    return cheapest_room(heap.segments(), {size, size <= kMiB ? PoolKind::small : PoolKind::large, true},
                         [&](void* at) { return at == large->data      ? large_cost
                                                : at == small[0]->data ? 2.
                                                                       : 3.; });
  };
  EXPECT_EQ(room(kMiB, 4), std::vector<void*>{small[0]->data});
  EXPECT_EQ(room(kMiB, 1), std::vector<void*>{large->data});
  EXPECT_EQ(room(kMiB * 2, 6), (std::vector<void*>{small[0]->data, small[1]->data}));
  EXPECT_EQ(room(kMiB * 2, 4), std::vector<void*>{large->data});
  EXPECT_EQ(room(kMiB * 3, 4)->size(), 3U);
}

// Every run of neighbours, one after the other.
std::optional<double> cheapest_by_hand(const BlockHeap& heap, Bytes size, PoolKind pool,
                                       const std::map<void*, double>& costs) {
  const auto cost_of = [&](const Block& block) {
    double sum = 0;
    const Block* at = block.holds != nullptr ? block.holds->first : &block;
    for (; at != nullptr; at = block.holds != nullptr ? at->right : nullptr) {
      if (at->state == BlockState::allocated) sum += costs.at(at->data);
    }
    return sum;
  };
  std::optional<double> best;
  for (const Segment* segment = heap.segments(); segment != nullptr; segment = segment->next) {
    if (pool == PoolKind::large && segment->pool == PoolKind::small) continue;
    for (const Block* first = segment->first; first != nullptr; first = first->right) {
      Bytes inside;
      double sum = 0;
      for (const Block* last = first; last != nullptr && last->stream == first->stream; last = last->right) {
        inside += last->size;
        sum += cost_of(*last);
        if (inside >= size && sum < kStays && (!best || sum < *best)) best = sum;
      }
    }
  }
  return best;
}

TEST(Room, AgreesWithTryingEveryWindow) {
  int found = 0, none = 0, several = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    BlockHeap heap;
    heap.set_packing(Packing::tight);
    for (int i = 0; i < 2; ++i) heap.add_segment(address(64 + i * 64), kMiB * 12, PoolKind::large, kFirst);
    std::map<void*, double> costs;
    for (int step = 0; step < 40; ++step) {
      const PoolKind pool = random() % 2 == 0 ? PoolKind::small : PoolKind::large;
      const Bytes size = kBlockUnit * (1 + random() % (pool == PoolKind::small ? 2048 : 6000));
      Block* block = heap.find(size, pool, kFirst);
      if (block == nullptr && pool == PoolKind::small) {
        for (Segment* segment = heap.segments(); block == nullptr && segment != nullptr; segment = segment->next) {
          if (segment->pool == PoolKind::large) block = heap.find_highest(*segment, kMiB * 2);
        }
        if (block != nullptr) heap.add_segment_inside(*block, kMiB * 2);
        block = heap.find(size, pool, kFirst);
      }
      if (block == nullptr) continue;
      heap.take(*block, size, random() % 20 == 0 ? kSecond : kFirst);
      costs[block->data] = random() % 4 == 0 ? kStays : static_cast<double>(random() % 20);
      if (random() % 6 == 0) block->state = BlockState::waiting;
      if (random() % 6 == 0) heap.put(*block);
    }
    for (const PoolKind pool : {PoolKind::small, PoolKind::large}) {
      const Bytes size = kBlockUnit * (1 + random() % (pool == PoolKind::small ? 2048 : 16000));
      const auto room = cheapest_room(heap.segments(), {size, pool, true}, [&](void* at) { return costs.at(at); });
      const auto expected = cheapest_by_hand(heap, size, pool, costs);
      ASSERT_EQ(room.has_value(), expected.has_value()) << "seed " << seed;
      if (!room) {
        ++none;
        continue;
      }
      double sum = 0;
      for (void* at : *room) sum += costs.at(at);
      EXPECT_EQ(sum, *expected) << "seed " << seed;
      EXPECT_EQ(std::set<void*>(room->begin(), room->end()).size(), room->size());
      ++found;
      several += room->size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 20);
  EXPECT_GT(several, 50);
}

}  // namespace
}  // namespace ferry::memory
