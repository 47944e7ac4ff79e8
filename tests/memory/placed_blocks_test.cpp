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

TEST_F(PlacedBlocks, DoNotComeAfterUsesOfBlocksThatWereGivenBackEarlier) {
  const Allocation a = allocator_.allocate_at(at({}), kMiB * 8, compute_);
  const Allocation b = allocator_.allocate_at(at(kMiB * 8), kMiB * 8, compute_);
  const Allocation c = allocator_.allocate_at(at(kMiB * 16), kMiB * 8, compute_);
  std::vector<FakeDriver::Work> work;
  for (const Allocation& each : {c, b, a}) {
    allocator_.record_use(each, copies_);
    allocator_.record_use(each, third_);
    work.push_back(fake_->enqueue(third_));
    allocator_.close_use(each, third_);
    work.push_back(fake_->enqueue(copies_));
    allocator_.close_use(each, copies_);
  }
  for (const Allocation& each : {a, c, b}) allocator_.deallocate(each);
  const Allocation again = allocator_.allocate_at(at(kMiB * 8), kMiB * 8, compute_);
  EXPECT_EQ(again.data, at(kMiB * 8));
  for (std::size_t i = 0; i < work.size(); ++i) EXPECT_EQ(fake_->ordered(work[i], compute_), i < 4) << i;
  const Allocation last = allocator_.allocate_at(at({}), kMiB * 8, compute_);
  for (const FakeDriver::Work& each : work) EXPECT_TRUE(fake_->ordered(each, compute_));
  for (const Allocation& each : {again, last}) allocator_.deallocate(each);
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

TEST_F(PlacedBlocks, HaveTheLowEndWhenSmallSegmentsHaveRisen) {
  std::vector<Allocation> large, small;
  for (int i = 0; i < 3; ++i) {
    large.push_back(allocator_.allocate_at(at(kMiB * (56 - 10 * i)), kMiB * 8, compute_));
    small.push_back(allocator_.allocate(kKiB * 700, compute_));
    small.push_back(allocator_.allocate(kKiB * 700, compute_));
  }
  for (const Allocation& each : large) allocator_.deallocate(each);
  const auto index_of = [&](const void* address) {
    return std::ranges::find(small, address, &Allocation::data) - small.begin();
  };
  const auto lowest = [&] { return allocator_.arena().taken.front().address; };
  ASSERT_LT(lowest(), at(kMiB * 50));
  std::ptrdiff_t stays = index_of(lowest());
  const CachingAllocator::BlockOwners owners{
      .may_move = [&](void* address) { return index_of(address) != stays; },
      .moved = [&](void* from, void* to) { small[static_cast<std::size_t>(index_of(from))].data = to; }};
  EXPECT_GT(allocator_.raise_small_segments(owners), Bytes{});
  EXPECT_LT(lowest(), at(kMiB * 50)) << "one stays";
  stays = -1;
  EXPECT_EQ(allocator_.raise_small_segments(owners), kMiB * 2);
  EXPECT_GE(lowest(), at(kMiB * 56));
  EXPECT_EQ(allocator_.raise_small_segments(owners), Bytes{});
  EXPECT_TRUE(allocator_.try_allocate_at(at({}), kMiB * 56, compute_));
}

TEST_F(PlacedBlocks, KeepEveryPromiseInRandomPrograms) {
  const std::vector<StreamId> streams{compute_, copies_, third_};
  allocator_.end_budget();
  allocator_.empty_cache();
  int placed = 0, elsewhere = 0;
  Bytes raised;
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
      if (step % 7 == 0) raised += program.raise_small_segments();
      ASSERT_EQ(program.fault(), "") << "seed " << seed << ", step " << step;
    }
    program.free_all();
    program.allocate(kMiB * 40, compute_);
    EXPECT_EQ(program.fault(), "") << "seed " << seed;
    program.free_all();
  }
  EXPECT_GT(placed, 40);
  EXPECT_GT(elsewhere, 50);
  EXPECT_GT(raised, kMiB * 8);
}

}  // namespace
}  // namespace ferry
