#include "src/memory/staging_ring.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/memory/fake_driver.h"

namespace ferry {
namespace {

using testing::FakeDriver;

constexpr StreamId kStream{0};

class StagingRingTest : public ::testing::Test {
 protected:
  // Stages `size` bytes and enqueues their copy.
  std::byte* stage(StagingRing& ring, Bytes size, StreamId stream = kStream) {
    StagingRing::Block block = ring.acquire(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0U);
    check(block, size);
    block.used_by(stream);
    copies_.push_back({block.data(), size, driver_.enqueue(stream)});
    return block.data();
  }
  // No copy whose end the host does not know reads what it is about to fill.
  void check(const StagingRing::Block& block, Bytes size) {
    for (const Copy& copy : copies_) {
      const bool overlaps = block.data() < copy.data + copy.size.count && copy.data < block.data() + size.count;
      EXPECT_TRUE(!overlaps || driver_.host_ordered(copy.work)) << "staging memory of a copy in flight was reused";
    }
  }
  struct Copy {
    std::byte* data;
    Bytes size;
    FakeDriver::Work work;
  };

  FakeDriver driver_;
  PinnedPool pool_{driver_};
  std::vector<Copy> copies_;
};

TEST_F(StagingRingTest, BlocksOfASlabFollowEachOther) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 2});
  std::byte* first = stage(ring, Bytes{100});
  EXPECT_EQ(stage(ring, Bytes{10}), first + 128);
  EXPECT_EQ(driver_.calls, 1);
}

TEST_F(StagingRingTest, ASlabComesBackWhenItsCopiesHavePassed) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 2});
  std::byte* first = stage(ring, kKiB * 4);
  std::byte* second = stage(ring, kKiB * 4);
  EXPECT_NE(first, second);
  driver_.advance(kStream);
  EXPECT_EQ(stage(ring, kKiB * 4), first);
}

TEST_F(StagingRingTest, AFullRingWaitsForItsOldestSlab) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 3});
  std::byte* first = stage(ring, kKiB * 4);
  for (int i = 0; i < 2; ++i) stage(ring, kKiB * 4);
  EXPECT_EQ(stage(ring, kKiB * 4), first);
  EXPECT_EQ(pool_.stats().segments, 3);
}

TEST_F(StagingRingTest, ABlockThatWasNotCopiedIsFreeAtOnce) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 1});
  const std::byte* dropped = ring.acquire(kKiB * 4).data();
  EXPECT_EQ(ring.acquire(kKiB * 4).data(), dropped);
  EXPECT_EQ(driver_.events, 0);
}

TEST_F(StagingRingTest, LargeBlocksHaveTheirOwnMemory) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 2});
  std::byte* first = stage(ring, kKiB * 64);
  EXPECT_NE(stage(ring, kKiB * 64), first) << "its copy has not passed";
  driver_.synchronize();
  EXPECT_EQ(pool_.stats().reserved, kKiB * 128);
  std::byte* third = stage(ring, kKiB * 64);
  EXPECT_EQ(pool_.stats().reserved, kKiB * 128);
  EXPECT_NE(third, nullptr);
}

TEST_F(StagingRingTest, BlocksThatAreHeldNeverShareMemory) {
  StagingRing ring(driver_, pool_, {.slab = kKiB * 4, .slabs = 2});
  std::vector<StagingRing::Block> held;
  for (int i = 0; i < 6; ++i) held.push_back(ring.acquire(kKiB * 3));
  for (std::size_t i = 0; i < held.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(held[i].data(), held[j].data());
  }
}

TEST_F(StagingRingTest, GoesOnWithOneSlabWhenThePoolHasNoMore) {
  PinnedPool pool(driver_, {.limit = kKiB * 4});
  StagingRing ring(driver_, pool, {.slab = kKiB * 4, .slabs = 4});
  std::byte* first = stage(ring, kKiB * 4);
  EXPECT_EQ(stage(ring, kKiB * 4), first);
  const StagingRing::Block held = ring.acquire(kKiB * 4);
  EXPECT_THROW(ring.acquire(kKiB * 4), OutOfMemory);
}

TEST_F(StagingRingTest, RandomCopiesOnTwoStreamsNeverMeet) {
  const StreamId other = driver_.create_stream("other");
  {
    StagingRing ring(driver_, pool_, {.slab = kKiB * 16, .slabs = 3});
    std::mt19937 random(11);
    std::vector<StagingRing::Block> held;
    for (int step = 0; step < 1500; ++step) {
      const StreamId stream = random() % 2 == 0 ? kStream : other;
      stage(ring, Bytes{1} * (1 + random() % 20000), stream);
      if (random() % 8 == 0) held.push_back(ring.acquire(kKiB));
      if (random() % 8 == 0 && !held.empty()) held.pop_back();
      for (auto i = random() % 3; i > 0; --i) driver_.advance(stream);
    }
  }
  EXPECT_EQ(pool_.stats().allocated, Bytes{});
  driver_.synchronize();
  pool_.empty_cache();
  EXPECT_TRUE(driver_.pinned.empty());
}

}  // namespace
}  // namespace ferry
