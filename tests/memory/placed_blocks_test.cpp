// Blocks of a budget's arena at addresses that the caller chose.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/memory/allocator_program.h"
#include "tests/memory/budget_fixture.h"

namespace ferry {
namespace {

using testing::AllocatorProgram;
using testing::FakeDriver;

constexpr Bytes kArena = kMiB * 64;

class PlacedBlocks : public testing::BudgetFixture {
 protected:
  PlacedBlocks() {
    allocator_.begin_budget(kArena);
    data_ = static_cast<std::byte*>(allocator_.arena().data);
  }
  std::byte* at(Bytes offset) const { return data_ + offset.count; }

  CachingAllocator allocator_{driver_};
  std::byte* data_ = nullptr;
};

TEST_F(PlacedBlocks, LieWhereTheyWereWished) {
  EXPECT_EQ(allocator_.arena().size, kArena);
  const Allocation middle = allocator_.allocate_at(at(kMiB * 20), kMiB * 8, compute_);
  const Allocation low = allocator_.allocate_at(at({}), kMiB * 20, compute_);
  const Allocation high = allocator_.allocate_at(at(kMiB * 60), kMiB * 4, compute_);
  EXPECT_EQ(middle.data, at(kMiB * 20));
  EXPECT_EQ(low.data, at({}));
  EXPECT_EQ(high.data, at(kMiB * 60));
  const auto arena = allocator_.arena();
  ASSERT_EQ(arena.taken.size(), 3U);
  EXPECT_EQ(arena.taken[1].address, middle.data);
  EXPECT_EQ(arena.taken[1].size, kMiB * 8);
  EXPECT_FALSE(arena.taken[1].is_small_pool);
  for (const Allocation& each : {middle, low, high}) allocator_.deallocate(each);
  EXPECT_EQ(allocator_.stats().largest_free, kArena) << "what lay before and behind merges again";
}

TEST_F(PlacedBlocks, LieElsewhereWhereThatIsNotFree) {
  const Allocation first = allocator_.allocate_at(at(kMiB * 8), kMiB * 8, compute_);
  for (const Bytes offset : {kMiB * 2, kMiB * 8, kMiB * 12, kMiB * 60}) {
    const Allocation other = allocator_.allocate_at(at(offset), kMiB * 8, compute_);
    EXPECT_FALSE(allocator_.try_allocate_at(at(offset), kMiB * 8, compute_));
    EXPECT_NE(other.data, at(offset));
    EXPECT_EQ(other.data, at({})) << "best fit";
    allocator_.deallocate(other);
  }
  std::byte elsewhere;
  const Allocation outside = allocator_.allocate_at(&elsewhere, kMiB * 8, compute_);
  EXPECT_EQ(outside.data, at({}));
  const Allocation small = allocator_.allocate_at(at(kMiB * 20), kKiB * 4, compute_);
  EXPECT_GE(small.data, at(kMiB * 62)) << "the small pool has the high end";
  EXPECT_TRUE(allocator_.arena().taken.back().is_small_pool);
  for (const Allocation& each : {first, outside, small}) allocator_.deallocate(each);
}

TEST_F(PlacedBlocks, AreLeftToTheDefaultWithoutABudget) {
  allocator_.end_budget();
  EXPECT_EQ(allocator_.arena().data, nullptr);
  const Allocation block = allocator_.allocate_at(at(kMiB * 20), kMiB * 20, compute_);
  EXPECT_EQ(block.data, at({}));
  EXPECT_FALSE(allocator_.try_allocate_at(at(kMiB * 40), kMiB * 8, compute_));
  allocator_.deallocate(block);
}

TEST_F(PlacedBlocks, ComeAfterForeignUsesOfTheirRangeAndNoOthers) {
  const Allocation a = allocator_.allocate_at(at({}), kMiB * 8, compute_);
  const Allocation b = allocator_.allocate_at(at(kMiB * 8), kMiB * 8, compute_);
  allocator_.record_use(a, copies_);
  allocator_.record_use(b, third_);
  const FakeDriver::Work of_a = fake_->enqueue(copies_);
  allocator_.deallocate(a);
  const FakeDriver::Work of_b = fake_->enqueue(third_);
  allocator_.deallocate(b);
  const std::int64_t before = forbidden_calls();
  const Allocation again = allocator_.allocate_at(at({}), kMiB * 8, compute_);
  EXPECT_EQ(again.data, at({}));
  EXPECT_TRUE(fake_->ordered(of_a, compute_));
  EXPECT_FALSE(fake_->ordered(of_b, compute_));
  EXPECT_FALSE(fake_->host_ordered(of_a));
  EXPECT_EQ(forbidden_calls(), before);
  const FakeDriver::Work on_compute = fake_->enqueue(compute_);
  allocator_.deallocate(again);
  const Allocation copy = allocator_.allocate_at(at({}), kMiB * 8, copies_);
  EXPECT_EQ(copy.data, at({}));
  EXPECT_TRUE(fake_->ordered(on_compute, copies_));
  allocator_.deallocate(copy);
}

TEST_F(PlacedBlocks, TakeThePlaceOfSmallSegmentsThatNobodyUses) {
  const Allocation small = allocator_.allocate(kKiB, compute_);
  const Allocation beside = allocator_.allocate_at(at(kMiB * 60), kMiB * 4, compute_);
  EXPECT_NE(beside.data, at(kMiB * 60));
  allocator_.deallocate(beside);
  allocator_.deallocate(small);
  const Allocation block = allocator_.allocate_at(at(kMiB * 60), kMiB * 4, compute_);
  EXPECT_EQ(block.data, at(kMiB * 60));
  allocator_.deallocate(block);
}

TEST_F(PlacedBlocks, KeepEveryPromiseInRandomPrograms) {
  const std::vector<StreamId> streams{compute_, copies_, third_};
  allocator_.end_budget();
  allocator_.empty_cache();
  int placed = 0, elsewhere = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    CachingAllocator allocator(driver_);
    allocator.begin_budget(kMiB * 40);
    const auto arena = allocator.arena();
    AllocatorProgram program(allocator, *fake_, streams, seed);
    for (int step = 0; step < 500; ++step) {
      program.step(kMiB * 6);
      if (step % 3 == 0) {
        void* const wish = static_cast<std::byte*>(arena.data) + 512 * program.draw(40 * 2048);
        const bool is_there = program.allocate_at(wish, kKiB * (1025 + program.draw(6000)), streams[step % 2]);
        ++(is_there ? placed : elsewhere);
      }
      ASSERT_EQ(program.fault(), "") << "seed " << seed << ", step " << step;
    }
    program.free_all();
    program.allocate(kMiB * 40, compute_);
    EXPECT_EQ(program.fault(), "") << "seed " << seed;
    program.free_all();
  }
  EXPECT_GT(placed, 50);
  EXPECT_GT(elsewhere, 50);
}

}  // namespace
}  // namespace ferry
