#include "src/memory/compaction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "src/memory/block_heap.h"

namespace ferry::memory {
namespace {

constexpr StreamId kStream{0}, kOther{1};

// Addresses that are never touched.
std::byte* const kBase = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);

Bytes units(std::int64_t count) { return kBlockUnit * count; }

// A segment of blocks: free ones have a negative number of units. Free neighbours merge.
class Row {
 public:
  explicit Row(const std::vector<std::int64_t>& blocks, StreamId stream = kStream) {
    Bytes size;
    for (const std::int64_t each : blocks) size += units(std::abs(each));
    heap_.add_segment(kBase, size, PoolKind::large, stream);
    heap_.set_packing(Packing::tight);
    for (const std::int64_t each : blocks) {
      taken_.push_back(heap_.find(units(std::abs(each)), PoolKind::large, stream));
      heap_.take(*taken_.back(), units(std::abs(each)), stream);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i] < 0) heap_.put(*taken_[i]);
  }
  Compaction find(std::int64_t size, const std::set<const Block*>& stay = {}) const {
    return cheapest_compaction(heap_.segments(), PoolKind::large, units(size), [&](void* address) {
      return std::none_of(stay.begin(), stay.end(), [&](const Block* block) { return block->data == address; });
    });
  }
  Block* block(std::size_t i) const { return taken_[i]; }
  BlockHeap& heap() { return heap_; }

  std::vector<Block*> in_order() const {
    std::vector<Block*> result;
    heap_.for_each_block([&](Block& block) { result.push_back(&block); });
    return result;
  }

 private:
  BlockHeap heap_;
  std::vector<Block*> taken_;
};

TEST(Compaction, MovesTheFewestBytes) {
  const Row row({-2, 5, -2, 1, -2, 9, -3});
  const Compaction four = row.find(4);
  ASSERT_TRUE(four.found);
  EXPECT_EQ(four.slide, std::vector<Block*>{row.block(3)});
  const Compaction five = row.find(5);
  EXPECT_EQ(five.slide, (std::vector<Block*>{row.block(1), row.block(3)}));
  EXPECT_EQ(row.find(9).slide.size(), 3U);
  EXPECT_FALSE(row.find(10).found);
}

TEST(Compaction, NothingMovesWhereThereIsRoom) {
  const Row row({-2, 5, -3});
  const Compaction result = row.find(3);
  EXPECT_TRUE(result.found);
  EXPECT_TRUE(result.slide.empty());
}

TEST(Compaction, BlocksThatStayEndARun) {
  const Row row({-2, 1, -2, 7, -2});
  EXPECT_EQ(row.find(4, {row.block(1)}).slide, std::vector<Block*>{row.block(3)});
  EXPECT_FALSE(row.find(5, {row.block(1)}).found);
  EXPECT_FALSE(row.find(3, {row.block(1), row.block(3)}).found);
}

TEST(Compaction, SegmentsOfTheSmallPoolAndWaitingBlocksStay) {
  Row row({-4, 1, -4, 1, -4});
  row.heap().add_segment_inside(*row.in_order()[2], units(1));
  row.block(3)->state = BlockState::waiting;
  EXPECT_TRUE(row.find(7).found);
  EXPECT_FALSE(row.find(8).found);
}

TEST(Compaction, ALargeBlockSlidesOnlyWhereTheGapIsLargeEnough) {
  EXPECT_TRUE(Row({-1, kWorthIt.most_pieces, -40}).find(41).found);
  EXPECT_FALSE(Row({-1, kWorthIt.most_pieces + 1, -40}).find(41).found);
  // In a longer run it slides further.
  const Row row({-1, 1, -1, kWorthIt.most_pieces + 1, -40});
  EXPECT_EQ(row.find(41).slide, (std::vector<Block*>{row.block(1), row.block(3)}));
}

TEST(Compaction, NoMoreMovesThanIsWorthIt) {
  EXPECT_TRUE(Row({-2, 4 * kWorthIt.most_moved, -2}).find(4).found);
  EXPECT_FALSE(Row({-2, 4 * kWorthIt.most_moved + 1, -2}).find(4).found);
}

// Tries all windows.
std::optional<Bytes> fewest_bytes(const std::vector<Block*>& blocks, Bytes size, const std::set<const Block*>& stay) {
  std::optional<Bytes> best;
  for (std::size_t begin = 0; begin < blocks.size(); ++begin) {
    Bytes free, moved;
    for (std::size_t end = begin; end < blocks.size(); ++end) {
      const Block& block = *blocks[end];
      if (block.state == BlockState::free) {
        free += block.size;
      } else if (stay.contains(&block) || block.size.count > free.count * kWorthIt.most_pieces) {
        break;
      } else {
        moved += block.size;
      }
      if (free >= size && moved <= size * kWorthIt.most_moved && (!best || moved < *best)) best = moved;
    }
  }
  return best;
}

TEST(Compaction, IsTheBestOfAllWindows) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(below)); };
  int found = 0, none = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 2 + draw(14); i > 0; --i) {
      const std::int64_t size = 1 + draw(draw(4) == 0 ? 300 : 8);
      sizes.push_back(draw(5) < 2 ? -size : size);
    }
    const Row row(sizes);
    std::set<const Block*> stay;
    for (const Block* block : row.in_order())
      if (draw(8) == 0) stay.insert(block);
    const std::int64_t size = 1 + draw(draw(2) == 0 ? 20 : 300);
    const Compaction result = row.find(size, stay);
    const std::optional<Bytes> best = fewest_bytes(row.in_order(), units(size), stay);
    ASSERT_EQ(result.found, best.has_value()) << round;
    Bytes moved;
    for (const Block* block : result.slide) moved += block->size;
    ASSERT_EQ(moved, best.value_or(Bytes{})) << round;
    found += !result.slide.empty();
    none += !result.found;
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(none, 300);
}

}  // namespace
}  // namespace ferry::memory
