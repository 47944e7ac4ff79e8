// Under a budget a stream that copies waits until the compute stream is done with the addresses that it gets, and for
// no more; with allocate_early it gets those for which that is first.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "tests/memory/budget_fixture.h"

namespace ferry {
namespace {

using testing::FakeDriver;

class EarlyBlocks : public testing::BudgetFixture {
 protected:
  static constexpr Bytes kWhole = kMiB * 64;  // a mark for each 4 MiB that are given back

  EarlyBlocks() { begin(); }
  void begin() {
    allocator_.begin_budget(kWhole);
    data_ = static_cast<std::byte*>(allocator_.arena().data);
  }
  std::byte* at(Bytes offset) const { return data_ + offset.count; }
  Allocation take(Bytes offset, Bytes size) {
    const Allocation block = allocator_.allocate_at(at(offset), size, compute_);
    EXPECT_EQ(block.data, at(offset));
    return block;
  }
  FakeDriver::Work use_and_free(const Allocation& block) {
    const FakeDriver::Work work = fake_->enqueue(compute_);
    allocator_.deallocate(block);
    return work;
  }
  // An allocation of the compute stream marks what was given back so far. It has the last 2 MiB.
  void mark() { allocator_.deallocate(take(kWhole - kMiB * 2, kMiB * 2)); }

  CachingAllocator allocator_{driver_};
  std::byte* data_ = nullptr;
};

TEST_F(EarlyBlocks, ACopyWaitsForWorkOnItsAddressesAndNoLaterWork) {
  for (const bool is_placed : {false, true}) {
    const Allocation rest = take(kMiB * 16, kMiB * 46);
    const Allocation a = take({}, kMiB * 8), b = take(kMiB * 8, kMiB * 8);
    const auto give_back = [&](const Allocation& block) {
      const FakeDriver::Work work = use_and_free(block);
      if (is_placed) {
        mark();
      } else {
        allocator_.deallocate(allocator_.allocate(kMiB * 2, compute_));
      }
      return work;
    };
    const FakeDriver::Work on_a = give_back(a), on_b = give_back(b);
    const FakeDriver::Work on_rest = fake_->enqueue(compute_);
    const auto allocate = [&](Bytes offset) {
      const Allocation block =
          is_placed ? allocator_.allocate_at(at(offset), kMiB * 8, copies_) : allocator_.allocate(kMiB * 8, copies_);
      EXPECT_EQ(block.data, at(offset));
      return block;
    };
    const std::int64_t before = forbidden_calls();
    const Allocation in_a = allocate({});
    EXPECT_TRUE(fake_->ordered(on_a, copies_));
    EXPECT_FALSE(fake_->ordered(on_b, copies_));
    const Allocation in_b = allocate(kMiB * 8);
    EXPECT_TRUE(fake_->ordered(on_b, copies_));
    EXPECT_FALSE(fake_->ordered(on_rest, copies_));
    EXPECT_FALSE(fake_->host_ordered(on_a));
    EXPECT_EQ(forbidden_calls(), before);
    for (const Allocation& each : {in_a, in_b, rest}) allocator_.deallocate(each);
    driver_.synchronize();
    allocator_.empty_cache();
  }
}

TEST_F(EarlyBlocks, WithoutAMarkSinceACopyWaitsForAllWork) {
  mark();
  const Allocation little = take({}, kKiB * 1536);
  const FakeDriver::Work on_little = use_and_free(little);
  const FakeDriver::Work later = fake_->enqueue(compute_);
  const Allocation beside = allocator_.allocate_at(at(kMiB * 3), kMiB * 3, copies_);
  EXPECT_FALSE(fake_->ordered(on_little, copies_));
  const Allocation across = allocator_.allocate_at(at(kMiB), kMiB * 2, copies_);
  EXPECT_EQ(across.data, at(kMiB));
  EXPECT_TRUE(fake_->ordered(on_little, copies_));
  EXPECT_TRUE(fake_->ordered(later, copies_));
  for (const Allocation& each : {beside, across}) allocator_.deallocate(each);
}

TEST_F(EarlyBlocks, ACopyWaitsForForeignUsesOfItsAddresses) {
  for (const bool has_passed : {false, true}) {
    const Allocation block = take({}, kMiB * 8);
    allocator_.record_use(block, third_);
    const FakeDriver::Work on_third = fake_->enqueue(third_);
    const FakeDriver::Work on_compute = use_and_free(block);
    mark();
    mark();
    if (has_passed) {
      fake_->advance(third_);
      mark();  // after which the compute stream waits for the event
    }
    const Allocation copy = allocator_.allocate_at(at({}), kMiB * 8, copies_);
    EXPECT_EQ(copy.data, at({}));
    EXPECT_TRUE(fake_->ordered(on_third, copies_));
    EXPECT_TRUE(fake_->ordered(on_compute, copies_));
    allocator_.deallocate(copy);
    driver_.synchronize();
  }
}

//   0       4           12  13                        62
//   | free  | block     |   | top                     |    |    the block slides to 0 in two copies
class CopiesAfterMoves : public EarlyBlocks {
 protected:
  CopiesAfterMoves() { fill(); }
  void fill() {
    block_ = take(kMiB * 4, kMiB * 8);
    top_ = take(kMiB * 13, kMiB * 49);
    use_and_free(take({}, kMiB * 4));
    mark();
    mark();
    before_ = fake_->enqueue(compute_);
  }
  void slide() {
    allocator_.compact(kMiB * 5, {.may_move = [&](void* address) { return address == block_.data; },
                                  .moved = [&](void*, void* to) { block_.data = to; }});
  }
  // Work of the compute stream since.
  FakeDriver::Work after(std::int64_t count) const { return {compute_, before_.number + count}; }

  Allocation block_, top_;
  FakeDriver::Work before_{};
};

TEST_F(CopiesAfterMoves, WaitForThoseFromTheirAddresses) {
  slide();
  ASSERT_EQ(block_.data, at({}));
  const Allocation copy = allocator_.allocate_at(at(kMiB * 8), kMiB * 4, copies_);
  ASSERT_EQ(copy.data, at(kMiB * 8));
  EXPECT_TRUE(fake_->ordered(after(2), copies_));
  for (const Allocation& each : {copy, block_, top_}) allocator_.deallocate(each);
}

TEST_F(CopiesAfterMoves, WaitForThoseThatFailedHalfWay) {
  faults_->fail(DriverCall::copy, 2);
  EXPECT_THROW(slide(), DeviceError);
  ASSERT_EQ(block_.data, at(kMiB * 4));
  const Allocation copy = allocator_.allocate_early(at({}), kMiB * 4, copies_);
  ASSERT_EQ(copy.data, at({}));
  EXPECT_TRUE(fake_->ordered(after(2), copies_)) << "the copy back reads those addresses";
  for (const Allocation& each : {copy, block_, top_}) allocator_.deallocate(each);
}

//   58  59  60              62    62.5
//   |   |   | free  | a | b |     | top      the segment of the small pool slides to 59, a and b by way of its hole
TEST_F(EarlyBlocks, ACopyIntoAHoleWaitsForAMoveOfItsSegmentThatFailed) {
  const Allocation low = take({}, kMiB * 50);
  Allocation top = take(kMiB * 62, kMiB * 2);
  std::array<Allocation, 4> small;
  for (Allocation& each : small) each = allocator_.allocate(kKiB * 512, compute_);
  ASSERT_EQ(small[0].data, at(kMiB * 60));
  allocator_.deallocate(top);
  top = take(kMiB * 62 + kKiB * 512, kKiB * 1536);
  for (const std::size_t i : {0, 1}) allocator_.deallocate(small[i]);
  allocator_.deallocate(take(kMiB * 50, kMiB * 9));
  const Allocation beside = take(kMiB * 50, kMiB * 9);  // marks
  const FakeDriver::Work before = fake_->enqueue(compute_);
  faults_->fail(DriverCall::copy, 2);
  const CachingAllocator::BlockOwners owners{
      .may_move = [&](void* address) { return address == small[2].data || address == small[3].data; },
      .moved = [](void*, void*) { FAIL(); }};
  EXPECT_THROW(allocator_.compact(kKiB * 1280, owners, true), DeviceError);
  const FakeDriver::Work copy_back{compute_, before.number + 2};
  const Allocation copy = allocator_.allocate_early(nullptr, kKiB * 512, copies_);
  EXPECT_EQ(copy.data, small[0].data);
  EXPECT_TRUE(fake_->ordered(copy_back, copies_));
  for (const Allocation& each : {low, top, small[2], small[3], beside, copy}) allocator_.deallocate(each);
}

// Segments from before the budget have no log.
TEST_F(EarlyBlocks, OutsideTheArenaACopyWaitsForAllWork) {
  allocator_.end_budget();
  allocator_.empty_cache();
  const Allocation kept = allocator_.allocate(kMiB * 2, compute_);  // in a segment of 20 MiB
  allocator_.begin_budget(kMiB * 20);
  EXPECT_EQ(allocator_.arena().data, nullptr);
  const FakeDriver::Work work = fake_->enqueue(compute_);
  for (int i = 0; i < 2; ++i) {
    const Allocation copy =
        i == 0 ? allocator_.allocate(kMiB * 4, copies_) : allocator_.allocate_early(kept.data, kMiB * 4, third_);
    ASSERT_TRUE(copy);
    EXPECT_TRUE(fake_->ordered(work, i == 0 ? copies_ : third_));
    allocator_.deallocate(copy);
  }
  const Allocation small = allocator_.allocate_early(nullptr, kKiB, copies_);
  EXPECT_TRUE(small);
  for (const Allocation& each : {kept, small}) allocator_.deallocate(each);
}

TEST_F(EarlyBlocks, ANewBudgetKnowsNothingOfTheOneBefore) {
  const Allocation block = take({}, kMiB * 8);
  use_and_free(block);
  mark();
  allocator_.end_budget();
  allocator_.empty_cache();
  const FakeDriver::Work between = fake_->enqueue(compute_);
  begin();
  const Allocation copy = allocator_.allocate_early(at({}), kMiB * 8, copies_);
  EXPECT_EQ(copy.data, at({}));
  EXPECT_TRUE(fake_->ordered(between, copies_));
  allocator_.deallocate(copy);
}

// What allocate_early chooses. The blocks that these tests begin with fill the arena up to the last 2 MiB:
//
//   0    8    16   24                62
//   | a  | b  | c  | rest            |    |
class EarlyPlaces : public EarlyBlocks {
 protected:
  EarlyPlaces() { mark(); }
  // Gives back and marks.
  FakeDriver::Work give_back(const Allocation& block) {
    const FakeDriver::Work work = use_and_free(block);
    mark();
    return work;
  }
  Allocation early(Bytes wish, Bytes size = kMiB * 8) { return allocator_.allocate_early(at(wish), size, copies_); }
  // The whole arena is free in one piece when these are given back, too.
  void free_all(std::initializer_list<Allocation> blocks) {
    for (const Allocation& each : blocks) allocator_.deallocate(each);
    driver_.synchronize();
    allocator_.empty_cache();
    EXPECT_EQ(allocator_.stats().largest_free, kWhole);
    EXPECT_EQ(allocator_.stats().active, Bytes{});
  }

  const Allocation a_ = take({}, kMiB * 8), b_ = take(kMiB * 8, kMiB * 8), c_ = take(kMiB * 16, kMiB * 8);
  const Allocation rest_ = take(kMiB * 24, kMiB * 38);
};

TEST_F(EarlyPlaces, AreElsewhereWhenTheWishedOneIsLate) {
  const FakeDriver::Work on_a = give_back(a_), on_b = give_back(b_);
  const FakeDriver::Work later = fake_->enqueue(compute_);
  const Allocation copy = early(kMiB * 8);
  EXPECT_EQ(copy.data, at({}));
  EXPECT_TRUE(fake_->ordered(on_a, copies_));
  EXPECT_FALSE(fake_->ordered(on_b, copies_));
  const Allocation placed = allocator_.try_allocate_at(at(kMiB * 8), kMiB * 8, compute_);
  EXPECT_TRUE(placed) << "the wished one stays free";
  EXPECT_FALSE(fake_->ordered(later, copies_));
  free_all({copy, placed, c_, rest_});
}

TEST_F(EarlyPlaces, AreTheWishedOneWhenThatIsAsEarly) {
  use_and_free(a_);
  const FakeDriver::Work on_c = use_and_free(c_);
  mark();
  const FakeDriver::Work later = fake_->enqueue(compute_);
  const Allocation copy = early(kMiB * 16);
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_TRUE(fake_->ordered(on_c, copies_));
  EXPECT_FALSE(fake_->ordered(later, copies_));
  free_all({copy, b_, rest_});
}

TEST_F(EarlyPlaces, AreTheWishedOneWhenThatIsFirst) {
  const FakeDriver::Work on_c = give_back(c_), on_a = give_back(a_);
  const Allocation copy = early(kMiB * 16);
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_TRUE(fake_->ordered(on_c, copies_));
  EXPECT_FALSE(fake_->ordered(on_a, copies_));
  free_all({copy, b_, rest_});
}

TEST_F(EarlyPlaces, DoNotOverlapTheWishedOne) {
  give_back(a_);
  give_back(c_);
  const FakeDriver::Work on_b = give_back(b_);
  const Allocation copy = early(kMiB * 4);  // [0, 4) is left before it, and a part of c_ behind it
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_FALSE(fake_->ordered(on_b, copies_));
  const Allocation small = early(kMiB * 4, kMiB * 4);
  EXPECT_EQ(small.data, at(kMiB * 4)) << "as early as [0, 4)";
  free_all({copy, small, rest_});
}

// The wished one was given back as early as another, and then taken again.
TEST_F(EarlyPlaces, AreTheEarliestWhenTheWishedOneIsTaken) {
  use_and_free(a_);
  const FakeDriver::Work on_c = give_back(c_);
  const Allocation again = take({}, kMiB * 8);
  use_and_free(rest_);
  const Allocation beside = take(kMiB * 31, kMiB * 31);
  const FakeDriver::Work on_b = give_back(b_);
  EXPECT_EQ(allocator_.stats().largest_free, kMiB * 23) << "of b_, c_ and 7 MiB of the rest";
  const Allocation copy = early({}, kMiB * 7);
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_TRUE(fake_->ordered(on_c, copies_));
  EXPECT_FALSE(fake_->ordered(on_b, copies_));
  free_all({copy, again, beside});
}

TEST_F(EarlyPlaces, AreElsewhereWhenTheWishedOneWaitsForAnotherStream) {
  use_and_free(a_);
  const FakeDriver::Work on_b = give_back(b_);
  const Allocation again = take({}, kMiB * 8);
  allocator_.record_use(again, third_);
  const FakeDriver::Work on_third = fake_->enqueue(third_);
  const FakeDriver::Work on_again = give_back(again);
  const Allocation copy = early({});
  EXPECT_EQ(copy.data, at(kMiB * 8));
  EXPECT_TRUE(fake_->ordered(on_b, copies_));
  EXPECT_FALSE(fake_->ordered(on_again, copies_));
  EXPECT_FALSE(fake_->ordered(on_third, copies_));
  EXPECT_FALSE(fake_->ordered(on_third, compute_)) << "which need not wait, either";
  free_all({copy, c_, rest_});
}

TEST_F(EarlyPlaces, AreTheEarliestWhenNoneIsWished) {
  const FakeDriver::Work on_c = give_back(c_), on_a = give_back(a_);
  const Allocation copy = allocator_.allocate_early(nullptr, kMiB * 8, copies_);
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_TRUE(fake_->ordered(on_c, copies_));
  EXPECT_FALSE(fake_->ordered(on_a, copies_));
  free_all({copy, b_, rest_});
}

TEST_F(EarlyPlaces, AreTheEarliestWhenTheWishedOneIsNotInTheArena) {
  const FakeDriver::Work on_c = give_back(c_), on_a = give_back(a_);
  std::byte elsewhere;
  const Allocation copy = allocator_.allocate_early(&elsewhere, kMiB * 8, copies_);
  EXPECT_EQ(copy.data, at(kMiB * 16));
  EXPECT_TRUE(fake_->ordered(on_c, copies_));
  EXPECT_FALSE(fake_->ordered(on_a, copies_));
  free_all({copy, b_, rest_});
}

TEST_F(EarlyPlaces, AreWhereAllocateAtHasThemForTheComputeStream) {
  give_back(a_);
  give_back(c_);
  const Allocation block = allocator_.allocate_early(at(kMiB * 16), kMiB * 8, compute_);
  EXPECT_EQ(block.data, at(kMiB * 16));
  const Allocation other = allocator_.allocate_early(at(kMiB * 8), kMiB * 8, compute_);
  EXPECT_EQ(other.data, at({}));
  free_all({block, other, b_, rest_});
}

TEST_F(EarlyPlaces, WithinAFreeBlockLeaveWhatIsBesideThem) {
  give_back(b_);
  give_back(a_);
  const FakeDriver::Work on_c = give_back(c_);
  const Allocation copy = early({}, kMiB * 6);  // the gap is in the middle of a_, b_ and c_
  EXPECT_EQ(copy.data, at(kMiB * 8));
  EXPECT_FALSE(fake_->ordered(on_c, copies_));
  const Allocation low = take({}, kMiB * 8), high = take(kMiB * 14, kMiB * 10);
  free_all({copy, low, high, rest_});
}

//   | 0 late | 1 middle | 2 early | 3 |   | 4 | 5 | 6 | 7 late |    two segments of the small pool
TEST_F(EarlyPlaces, OfTheSmallPoolAreHolesInItsSegments) {
  use_and_free(rest_);
  std::vector<Allocation> small;
  for (int i = 0; i < 8; ++i) small.push_back(allocator_.allocate(kKiB * 512, compute_));
  const auto give_back_small = [&](std::size_t i) {
    allocator_.deallocate(take(kMiB * 24, kMiB * 4));  // enough for a mark
    const FakeDriver::Work work = use_and_free(small[i]);
    allocator_.deallocate(take(kMiB * 24, kMiB * 2));
    return work;
  };
  const FakeDriver::Work early = give_back_small(2), middle = give_back_small(1), late = give_back_small(7);
  give_back_small(0);
  const Allocation best = allocator_.allocate(kKiB * 512, compute_);
  EXPECT_EQ(best.data, small[7].data);
  allocator_.deallocate(best);
  const Allocation whole = allocator_.allocate_early(nullptr, kKiB * 512, copies_);
  EXPECT_EQ(whole.data, small[2].data);
  EXPECT_TRUE(fake_->ordered(early, copies_));
  EXPECT_FALSE(fake_->ordered(middle, copies_));
  const Allocation half = allocator_.allocate_early(at(kMiB * 30), kKiB * 256, copies_);
  EXPECT_EQ(half.data, small[1].data);
  EXPECT_TRUE(fake_->ordered(middle, copies_));
  EXPECT_FALSE(fake_->ordered(late, copies_));
  for (const std::size_t i : {3, 4, 5, 6}) allocator_.deallocate(small[i]);
  free_all({whole, half, a_, b_, c_});
}

TEST_F(EarlyPlaces, FailAsAllocateDoes) {
  EXPECT_THROW(allocator_.allocate_early(nullptr, Bytes{-1}, copies_), InvalidArgument);
  EXPECT_FALSE(allocator_.allocate_early(at({}), Bytes{}, copies_));
  for (const Bytes size :
       {kMiB * 8, kWhole + kMiB, kGiB * (1 << 20), Bytes{std::numeric_limits<std::int64_t>::max()}}) {
    EXPECT_THROW(allocator_.allocate_early(at({}), size, copies_), OutOfMemory);
    EXPECT_THROW(allocator_.allocate_early(nullptr, size, copies_), OutOfMemory);
  }
  std::vector<Allocation> given_up{b_};
  allocator_.set_on_failure([&](Bytes size) {
    EXPECT_EQ(size, kMiB * 8);
    if (given_up.empty()) return false;
    allocator_.deallocate(given_up.back());
    given_up.pop_back();
    return true;
  });
  const Allocation copy = early({});
  EXPECT_EQ(copy.data, b_.data);
  EXPECT_THROW(early({}), OutOfMemory);
  free_all({copy, a_, c_, rest_});
}

TEST_F(EarlyPlaces, DoNotMatterWithoutABudget) {
  give_back(a_);
  give_back(c_);
  allocator_.end_budget();
  const FakeDriver::Work later = fake_->enqueue(compute_);
  const Allocation copy = early(kMiB * 16);
  EXPECT_EQ(copy.data, at({})) << "the lowest that fits best";
  EXPECT_TRUE(fake_->ordered(later, copies_));
  for (const Allocation& each : {copy, b_, rest_}) allocator_.deallocate(each);
  EXPECT_TRUE(allocator_.allocate_early(nullptr, kKiB, copies_)) << "in a segment of its own";
}

}  // namespace
}  // namespace ferry
