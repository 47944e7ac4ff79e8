#include "src/memory/block_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace ferry::memory {
namespace {

class BlockBinsTest : public ::testing::Test {
 protected:
  Block& add(Bytes size) {
    Block& block = blocks_.emplace_back();
    block.size = size;
    bins_.insert(block);
    return block;
  }
  // The smallest size of at least `size`, by looking at each.
  Bytes smallest_from(Bytes size) const {
    Bytes best;
    for (const Block& block : blocks_) {
      if (block.size >= size && (best == Bytes{} || block.size < best)) best = block.size;
    }
    return best;
  }

  BlockBins bins_;
  std::deque<Block> blocks_;
};

TEST_F(BlockBinsTest, FindsNothingWhenEmpty) {
  EXPECT_EQ(bins_.best_fit(kBlockUnit), nullptr);
  EXPECT_EQ(bins_.largest(), Bytes{});
}

TEST_F(BlockBinsTest, AmongEqualSizesTheLastFreedComesFirst) {
  add(kKiB);
  Block& second = add(kKiB);
  EXPECT_EQ(bins_.best_fit(kKiB), &second);
}

TEST_F(BlockBinsTest, TakesSizesUpTo128TiB) {
  Block& huge = add(kGiB * (1 << 17));
  EXPECT_EQ(bins_.best_fit(kGiB * (1 << 16)), &huge);
  EXPECT_EQ(bins_.largest(), huge.size);
  bins_.remove(huge);
  EXPECT_EQ(bins_.best_fit(kBlockUnit), nullptr);
}

TEST_F(BlockBinsTest, BestFitAgreesWithALookAtEveryBlock) {
  std::mt19937_64 random(7);
  const auto any_size = [&] {
    const auto bits = std::uniform_int_distribution(0, 30)(random);
    return kBlockUnit * std::uniform_int_distribution<std::int64_t>(1, std::int64_t{1} << bits)(random);
  };
  for (int step = 0; step < 4000; ++step) {
    if (blocks_.size() < 200 || random() % 2 == 0) {
      add(any_size());
    } else {
      bins_.remove(blocks_.front());
      blocks_.pop_front();
    }
    const Bytes size = any_size();
    const Block* found = bins_.best_fit(size);
    ASSERT_EQ(found == nullptr ? Bytes{} : found->size, smallest_from(size)) << "for " << size.count << " bytes";
    const auto largest = std::max_element(blocks_.begin(), blocks_.end(),
                                          [](const Block& a, const Block& b) { return a.size < b.size; });
    ASSERT_EQ(bins_.largest(), largest->size);
  }
}

}  // namespace
}  // namespace ferry::memory
