#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/memory/budget_fixture.h"

namespace ferry {
namespace {

using testing::FakeDriver;
using ::testing::HasSubstr;

class BudgetTest : public testing::BudgetFixture {
 protected:
  BudgetTest() : BudgetFixture(kMiB * 128) {}

  static std::byte* at(const Allocation& allocation) { return static_cast<std::byte*>(allocation.data); }
  void free_all(std::vector<Allocation>& allocations) {
    for (const Allocation& each : allocations) allocator_.deallocate(each);
    allocations.clear();
  }
  // A block of that much, used on `stream` and given back, whose use has not passed.
  FakeDriver::Work leave_waiting(Bytes size, StreamId stream) {
    const Allocation allocation = allocator_.allocate(size, compute_);
    allocator_.record_use(allocation, stream);
    const FakeDriver::Work work = fake_->enqueue(stream);
    allocator_.deallocate(allocation);
    return work;
  }
  CachingAllocator allocator_{driver_};
};

TEST_F(BudgetTest, TakesAllThatMayBeReservedAtOnce) {
  const Allocation before = allocator_.allocate(kMiB * 3, compute_);
  allocator_.begin_budget(kMiB * 100);
  EXPECT_EQ(fake_->reserved(), kMiB * 100);
  EXPECT_EQ(allocator_.stats().reserved, kMiB * 100);
  EXPECT_EQ(allocator_.stats().peak_reserved, kMiB * 100);
  EXPECT_EQ(allocator_.stats().limit, kMiB * 100);
  const std::int64_t calls = fake_->calls;
  std::vector<Allocation> more;
  for (const Bytes size : {kMiB * 30, kKiB * 5, kMiB * 2, kMiB * 40}) {
    more.push_back(allocator_.allocate(size, compute_));
  }
  free_all(more);
  allocator_.empty_cache();
  EXPECT_EQ(fake_->calls, calls);
  EXPECT_EQ(fake_->reserved(), kMiB * 100);
  allocator_.deallocate(before);

  allocator_.end_budget();
  EXPECT_EQ(allocator_.stats().limit, Bytes{});
  EXPECT_EQ(fake_->reserved(), kMiB * 100) << "an ordinary segment now";
  allocator_.empty_cache();
  EXPECT_EQ(fake_->reserved(), Bytes{});
}

TEST_F(BudgetTest, ReturnsCachedSegmentsFirst) {
  allocator_.deallocate(allocator_.allocate(kMiB * 70, compute_));
  leave_waiting(kMiB * 20, copies_);
  allocator_.begin_budget(kMiB * 128);
  EXPECT_EQ(allocator_.stats().segments, 1);
  const Allocation all = allocator_.allocate(kMiB * 128, compute_);
  EXPECT_TRUE(all);
  allocator_.deallocate(all);
}

TEST_F(BudgetTest, BelowWhatIsAllocatedIsRefused) {
  const Allocation live = allocator_.allocate(kMiB * 30, compute_);
  try {
    allocator_.begin_budget(kMiB * 20);
    FAIL() << "a budget of 20 MiB holds 30 MiB";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("a budget of 20.00 MiB is too small for fake: 30.00 MiB are allocated"));
    EXPECT_EQ(error.figures().limit, kMiB * 20);
    EXPECT_EQ(error.figures().allocated, kMiB * 30);
  }
  EXPECT_EQ(allocator_.stats().limit, Bytes{});
  EXPECT_EQ(allocator_.stats().allocated, kMiB * 30);
  const Allocation more = allocator_.allocate(kMiB * 50, compute_);
  EXPECT_EQ(fake_->reserved(), kMiB * 80) << "no limit holds";
  allocator_.deallocate(more);
  allocator_.deallocate(live);
}

TEST_F(BudgetTest, ThatTheDriverDoesNotHaveIsRefused) {
  const Allocation live = allocator_.allocate(kMiB * 30, compute_);
  try {
    allocator_.begin_budget(kMiB * 200);
    FAIL() << "a device of 128 MiB gave 200 MiB";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("fake does not have the 170.00 MiB in one piece"));
  }
  EXPECT_EQ(allocator_.stats().limit, Bytes{});
  const Allocation more = allocator_.allocate(kMiB * 50, compute_);
  allocator_.deallocate(more);
  allocator_.deallocate(live);
}

TEST_F(BudgetTest, OneAtATimeAndPositive) {
  EXPECT_THROW(allocator_.begin_budget(Bytes{}), InvalidArgument);
  allocator_.end_budget();
  allocator_.begin_budget(kMiB * 40);
  EXPECT_THROW(allocator_.begin_budget(kMiB * 50), InvalidArgument);
  EXPECT_EQ(allocator_.stats().limit, kMiB * 40);
  allocator_.end_budget();
  allocator_.begin_budget(kMiB * 50);
  EXPECT_EQ(fake_->reserved(), kMiB * 50);
}

TEST_F(BudgetTest, AnArenaThatIsStillUsedCountsAgainstTheNextBudget) {
  allocator_.begin_budget(kMiB * 40);
  const Allocation live = allocator_.allocate(kKiB, compute_);
  const Allocation large = allocator_.allocate(kMiB * 2, copies_);
  allocator_.end_budget();
  EXPECT_THROW(allocator_.begin_budget(kMiB * 39), OutOfMemory);
  allocator_.begin_budget(kMiB * 60);
  EXPECT_EQ(fake_->reserved(), kMiB * 60);
  const Allocation more = allocator_.allocate(kMiB * 36, compute_);
  EXPECT_TRUE(more) << "what the first arena has left is used";
  allocator_.deallocate(more);
  allocator_.deallocate(live);
  allocator_.end_budget();
  allocator_.deallocate(large);
  allocator_.empty_cache();
  EXPECT_EQ(fake_->reserved(), Bytes{});
}

TEST_F(BudgetTest, NeighboursGivenBackMakeOneBlock) {
  allocator_.begin_budget(kMiB * 64);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocator_.allocate(kMiB * 8, i % 2 == 0 ? compute_ : copies_));
  EXPECT_THROW(allocator_.allocate(kMiB * 2, compute_), OutOfMemory);
  for (const int i : {3, 4}) allocator_.deallocate(blocks[i]);
  const Allocation both = allocator_.allocate(kMiB * 16, compute_);
  EXPECT_EQ(both.data, blocks[3].data);
  blocks[3] = both;
  blocks.erase(blocks.begin() + 4);
  free_all(blocks);
  EXPECT_EQ(allocator_.cheapest_room(kMiB * 64, [](void*) { return 0; }), std::vector<void*>{});
}

TEST_F(BudgetTest, SmallBlocksLieAtTheHighEndUntilALargeOneNeedsIt) {
  allocator_.begin_budget(kMiB * 20);
  const Allocation large = allocator_.allocate(kMiB * 4, compute_);
  const Allocation small = allocator_.allocate(kKiB * 600, compute_);
  std::vector<Allocation> smalls;
  for (int i = 0; i < 3; ++i) smalls.push_back(allocator_.allocate(kMiB, compute_));
  EXPECT_EQ(at(small), at(large) + (kMiB * 18).count) << "the highest 2 MiB";
  EXPECT_EQ(at(smalls[0]), at(small) + (kKiB * 600).count);
  EXPECT_EQ(at(smalls[1]), at(large) + (kMiB * 16).count);
  const Allocation middle = allocator_.allocate(kMiB * 12, compute_);
  EXPECT_EQ(at(middle), at(large) + (kMiB * 4).count);
  free_all(smalls);
  EXPECT_THROW(allocator_.allocate(kMiB * 3, compute_), OutOfMemory);
  const Allocation reclaimed = allocator_.allocate(kMiB * 2, compute_);
  EXPECT_EQ(at(reclaimed), at(large) + (kMiB * 16).count);
  for (const Allocation& each : {large, small, middle, reclaimed}) allocator_.deallocate(each);
  EXPECT_TRUE(allocator_.allocate(kMiB * 20, compute_));
}

TEST_F(BudgetTest, ASmallBlockFitsIntoTheLastHole) {
  allocator_.begin_budget(kMiB * 4 + kKiB * 600);
  const Allocation large = allocator_.allocate(kMiB * 4, compute_);
  const Allocation small = allocator_.allocate(kKiB * 500, compute_);
  const Allocation last = allocator_.allocate(kKiB * 100, compute_);
  EXPECT_THROW(allocator_.allocate(Bytes{1}, compute_), OutOfMemory);
  for (const Allocation& each : {large, small, last}) allocator_.deallocate(each);
  EXPECT_TRUE(allocator_.allocate(kMiB * 4 + kKiB * 600, compute_));
}

TEST_F(BudgetTest, FreeSpaceFromBeforeIsUsed) {
  const Allocation live = allocator_.allocate(kMiB * 4, compute_);
  allocator_.begin_budget(kMiB * 20);
  EXPECT_EQ(allocator_.stats().segments, 1) << "nothing was left for an arena";
  const Allocation large = allocator_.allocate(kMiB * 12, compute_);
  const Allocation small = allocator_.allocate(kKiB, compute_);
  EXPECT_EQ(fake_->reserved(), kMiB * 20);
  EXPECT_EQ(at(small), at(live) + (kMiB * 18).count);
  for (const Allocation& each : {live, large, small}) allocator_.deallocate(each);
  EXPECT_TRUE(allocator_.allocate(kMiB * 20, compute_));
}

TEST_F(BudgetTest, BlocksFromBeforeJoinTheComputeStream) {
  const Allocation first = allocator_.allocate(kMiB * 4, copies_);
  const Allocation second = allocator_.allocate(kMiB * 4, copies_);
  const FakeDriver::Work free_before = fake_->enqueue(copies_);
  allocator_.begin_budget(kMiB * 20);
  EXPECT_TRUE(fake_->ordered(free_before, compute_)) << "of whose blocks some are free";
  const FakeDriver::Work work = fake_->enqueue(copies_);
  allocator_.deallocate(first);
  allocator_.deallocate(second);
  EXPECT_FALSE(fake_->ordered(work, compute_));
  const Allocation all = allocator_.allocate(kMiB * 20, compute_);
  EXPECT_TRUE(fake_->ordered(work, compute_));
  allocator_.deallocate(all);
}

TEST_F(BudgetTest, TheDeviceWaitsForForeignUsesNotTheHost) {
  allocator_.begin_budget(kMiB * 64);
  const FakeDriver::Work work = leave_waiting(kMiB * 40, copies_);
  const std::int64_t before = forbidden_calls();
  const Allocation again = allocator_.allocate(kMiB * 40, compute_);
  EXPECT_EQ(forbidden_calls(), before);
  EXPECT_FALSE(fake_->host_ordered(work));
  EXPECT_TRUE(fake_->ordered(work, compute_));
  allocator_.deallocate(again);
}

TEST_F(BudgetTest, NoWaitWhileThereIsRoom) {
  allocator_.begin_budget(kMiB * 64);
  const FakeDriver::Work work = leave_waiting(kMiB * 40, copies_);
  allocator_.deallocate(allocator_.allocate(kMiB * 24, compute_));
  EXPECT_FALSE(fake_->ordered(work, compute_));
}

TEST_F(BudgetTest, WaitsForTheOldestUsesAndNoMoreThanItTakes) {
  allocator_.begin_budget(kMiB * 64);
  const Allocation a = allocator_.allocate(kMiB * 20, compute_);
  const Allocation b = allocator_.allocate(kMiB * 20, compute_);
  const Allocation c = allocator_.allocate(kMiB * 20, compute_);
  allocator_.record_use(a, copies_);
  allocator_.record_use(b, third_);
  allocator_.record_use(c, copies_);
  const FakeDriver::Work of_b = fake_->enqueue(third_);
  allocator_.deallocate(b);
  const FakeDriver::Work of_a = fake_->enqueue(copies_);
  allocator_.deallocate(a);
  const FakeDriver::Work of_c = fake_->enqueue(copies_);
  allocator_.deallocate(c);
  const Allocation again = allocator_.allocate(kMiB * 40, compute_);
  EXPECT_EQ(again.data, a.data);
  EXPECT_TRUE(fake_->ordered(of_a, compute_));
  EXPECT_TRUE(fake_->ordered(of_b, compute_));
  EXPECT_FALSE(fake_->ordered(of_c, compute_));
  EXPECT_EQ(allocator_.stats().active, kMiB * 60) << "c waits still";
  allocator_.deallocate(again);
}

TEST_F(BudgetTest, AStreamThatGetsABlockComesAfterItsFormerUses) {
  allocator_.begin_budget(kMiB * 8);
  const Allocation first = allocator_.allocate(kMiB * 8, compute_);
  const FakeDriver::Work on_compute = fake_->enqueue(compute_);
  allocator_.record_use(first, third_);
  const FakeDriver::Work on_third = fake_->enqueue(third_);
  allocator_.deallocate(first);
  const Allocation second = allocator_.allocate(kMiB * 8, copies_);
  EXPECT_TRUE(fake_->ordered(on_compute, copies_));
  EXPECT_TRUE(fake_->ordered(on_third, copies_));
  const FakeDriver::Work on_copies = fake_->enqueue(copies_);
  allocator_.deallocate(second);
  allocator_.end_budget();
  const Allocation third = allocator_.allocate(kMiB * 8, compute_);
  EXPECT_TRUE(third.data != second.data || fake_->ordered(on_copies, compute_)) << "after the budget as well";
  allocator_.deallocate(third);
}

TEST_F(BudgetTest, OutOfMemoryNamesTheBudget) {
  allocator_.begin_budget(kMiB * 8);
  try {
    allocator_.allocate(kMiB * 9, compute_);
    FAIL() << "9 MiB came from a budget of 8";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("larger than the whole budget"));
    EXPECT_EQ(error.figures().limit, kMiB * 8);
  }
}

TEST_F(BudgetTest, OnFailureGivesWhatCheapestRoomNames) {
  allocator_.begin_budget(kMiB * 40);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator_.allocate(kMiB * 4, compute_));
  std::vector<Bytes> asked;
  allocator_.set_on_failure([&](Bytes missing) {
    asked.push_back(missing);
    const auto room =
        allocator_.cheapest_room(missing, [&](void* address) { return address > blocks[5].data ? 1 : 2; });
    if (!room || room->empty()) return false;
    for (void* address : *room) {
      const auto found =
          std::find_if(blocks.begin(), blocks.end(), [&](const Allocation& each) { return each.data == address; });
      allocator_.record_use(*found, copies_);
      fake_->enqueue(copies_);
      allocator_.deallocate(*found);
      blocks.erase(found);
    }
    return true;
  });
  void* const seventh = blocks[6].data;
  const Allocation large = allocator_.allocate(kMiB * 12, compute_);
  EXPECT_EQ(asked, std::vector<Bytes>{kMiB * 12});
  EXPECT_EQ(large.data, seventh);
  EXPECT_EQ(blocks.size(), 7U);
  allocator_.set_on_failure({});
  EXPECT_THROW(allocator_.allocate(kMiB * 4, compute_), OutOfMemory);
  EXPECT_EQ(asked.size(), 1U);
  allocator_.deallocate(large);
  free_all(blocks);
}

TEST_F(BudgetTest, OnFailureMayChangeWhileOthersAllocate) {
  std::atomic<bool> done{false};
  std::atomic<int> asked{0};
  allocator_.begin_budget(kMiB * 8);
  const Allocation all = allocator_.allocate(kMiB * 8, compute_);
  std::thread allocating([&] {
    for (int i = 0; i < 2000 || asked == 0; ++i) {
      EXPECT_THROW(allocator_.allocate(kMiB * 2, compute_), OutOfMemory);
    }
    done = true;
  });
  while (!done) {
    const auto owned = std::make_shared<int>(1);
    allocator_.set_on_failure([&asked, owned](Bytes) { return asked += *owned, false; });
    std::this_thread::yield();
    allocator_.set_on_failure({});
  }
  allocating.join();
  EXPECT_GT(asked, 0);
  allocator_.deallocate(all);
}

TEST_F(BudgetTest, CheapestRoomCountsWaitingBlocksAsRoom) {
  allocator_.begin_budget(kMiB * 24);
  const Allocation live = allocator_.allocate(kMiB * 8, compute_);
  leave_waiting(kMiB * 8, copies_);
  const auto costs_one = [](void*) { return 1; };
  EXPECT_EQ(allocator_.cheapest_room(Bytes{}, costs_one), std::vector<void*>{});
  EXPECT_EQ(allocator_.cheapest_room(kMiB * 16, costs_one), std::vector<void*>{});
  EXPECT_EQ(allocator_.cheapest_room(kMiB * 17, costs_one), std::vector<void*>{live.data});
  EXPECT_EQ(allocator_.cheapest_room(kMiB * 25, costs_one), std::nullopt);
  EXPECT_THROW(allocator_.cheapest_room(Bytes{-1}, costs_one), InvalidArgument);
  allocator_.deallocate(live);
}

}  // namespace
}  // namespace ferry
