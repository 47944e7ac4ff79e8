// Blocks go from one stream to another only when the order of streams and events allows it.

#include <gtest/gtest.h>

#include <random>

#include "src/memory/caching_allocator.h"
#include "tests/memory/fake_driver.h"

namespace ferry {
namespace {

using testing::FakeDriver;

class StreamOrderTest : public ::testing::Test {
 protected:
  // Uses a block as work of `stream` and remembers it.
  FakeDriver::Work use(const Allocation& allocation, StreamId stream) {
    const FakeDriver::Work work = driver_.enqueue(stream);
    uses_.push_back({static_cast<std::byte*>(allocation.data), allocation.size, work});
    return work;
  }
  // The first earlier use of the memory that later work on `stream` may run beside; empty when there is none.
  std::string race(const Allocation& allocation, StreamId stream) {
    const auto* begin = static_cast<std::byte*>(allocation.data);
    for (const Use& use : uses_) {
      if (begin < use.data + use.size.count && use.data < begin + allocation.size.count &&
          !driver_.ordered(use.work, stream)) {
        return "work " + std::to_string(use.work.number) + " of stream " + std::to_string(use.work.stream.value);
      }
    }
    return "";
  }
  struct Use {
    std::byte* data;
    Bytes size;
    FakeDriver::Work work;
  };

  FakeDriver driver_;
  StreamId compute_{0}, copies_{driver_.create_stream("copies")};
  std::vector<Use> uses_;
};

TEST_F(StreamOrderTest, AClosedUseEndsWithTheWorkSoFar) {
  for (const bool is_used_again : {false, true}) {
    CachingAllocator allocator(driver_);
    const Allocation block = allocator.allocate(kMiB * 12, compute_);
    allocator.record_use(block, copies_);
    const FakeDriver::Work copy = driver_.enqueue(copies_);
    allocator.close_use(block, copies_);
    if (is_used_again) allocator.record_use(block, copies_);
    const FakeDriver::Work later = driver_.enqueue(copies_);
    allocator.deallocate(block);
    driver_.advance(copies_);
    const Allocation next = allocator.allocate(kMiB * 12, compute_);
    EXPECT_EQ(next.data == block.data, !is_used_again);
    EXPECT_EQ(driver_.ordered(copy, compute_), !is_used_again);
    EXPECT_FALSE(driver_.ordered(later, compute_));
    driver_.advance(copies_);
    allocator.deallocate(next);
  }
}

TEST_F(StreamOrderTest, ABlockWithAForeignUseWaitsForItsEvent) {
  CachingAllocator allocator(driver_);
  const Allocation first = allocator.allocate(kMiB * 12, compute_);
  use(first, compute_);
  allocator.record_use(first, copies_);
  use(first, copies_);
  allocator.deallocate(first);
  EXPECT_EQ(allocator.stats().allocated, Bytes{});
  EXPECT_EQ(allocator.stats().active, kMiB * 12);

  const Allocation second = allocator.allocate(kMiB * 12, compute_);
  EXPECT_NE(second.data, first.data) << "the copy had not passed";
  driver_.advance(copies_);
  const Allocation third = allocator.allocate(kMiB * 12, compute_);
  EXPECT_EQ(third.data, first.data);
  EXPECT_EQ(race(third, compute_), "");
  allocator.deallocate(second);
  allocator.deallocate(third);
}

TEST_F(StreamOrderTest, ReuseOnAnotherStreamWaitsThere) {
  CachingAllocator allocator(driver_);
  const Allocation first = allocator.allocate(kMiB * 12, compute_);
  use(first, compute_);
  allocator.deallocate(first);
  const Allocation second = allocator.allocate(kMiB * 12, copies_);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(driver_.calls, 1);
  EXPECT_EQ(race(second, copies_), "");
  allocator.deallocate(second);
}

TEST_F(StreamOrderTest, PrefersItsOwnStreamsBlocks) {
  CachingAllocator allocator(driver_);
  const Allocation a = allocator.allocate(kMiB * 12, compute_);
  const Allocation b = allocator.allocate(kMiB * 14, copies_);
  allocator.deallocate(a);
  allocator.deallocate(b);
  const Allocation again = allocator.allocate(kMiB * 12, copies_);
  EXPECT_EQ(again.data, b.data);
  allocator.deallocate(again);
}

TEST_F(StreamOrderTest, AFullDeviceWaitsForForeignUsesBeforeItFails) {
  CachingAllocator allocator(driver_, {.limit = kMiB * 12});
  const Allocation first = allocator.allocate(kMiB * 12, compute_);
  allocator.record_use(first, copies_);
  use(first, copies_);
  allocator.deallocate(first);
  const Allocation second = allocator.allocate(kMiB * 12, compute_);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(race(second, compute_), "");
  allocator.deallocate(second);
}

TEST_F(StreamOrderTest, AFailedRecordIsMadeUpForLater) {
  CachingAllocator allocator(driver_);
  const Allocation first = allocator.allocate(kMiB * 12, compute_);
  allocator.record_use(first, copies_);
  use(first, copies_);
  driver_.fail_records = true;
  allocator.deallocate(first);
  EXPECT_THROW(allocator.allocate(kMiB * 12, compute_), DeviceError);
  driver_.fail_records = false;
  const Allocation second = allocator.allocate(kMiB * 12, compute_);
  EXPECT_NE(second.data, first.data);
  driver_.advance(copies_);
  const Allocation third = allocator.allocate(kMiB * 12, compute_);
  EXPECT_EQ(third.data, first.data);
  allocator.deallocate(second);
  allocator.deallocate(third);
}

TEST_F(StreamOrderTest, RandomProgramsHandNoBlockOutEarly) {
  const StreamId third = driver_.create_stream("third");
  const StreamId streams[] = {compute_, copies_, third};
  for (unsigned seed = 0; seed < 6; ++seed) {
    uses_.clear();
    // Odd seeds run out of memory now and then.
    CachingAllocator allocator(driver_, {.limit = seed % 2 == 0 ? kGiB * 8 : kMiB * 80});
    std::mt19937 random(seed);
    struct Live {
      Allocation allocation;
      StreamId stream;
    };
    std::vector<Live> live;
    for (int step = 0; step < 1000; ++step) {
      const StreamId stream = streams[random() % 3];
      const auto choice = random() % 10;
      if (choice < 3) driver_.advance(stream);
      if (choice < 5) {
        try {
          const Allocation allocation = allocator.allocate(kKiB * (1 + random() % (choice < 2 ? 900 : 12000)), stream);
          ASSERT_EQ(race(allocation, stream), "") << "seed " << seed << ", step " << step;
          use(allocation, stream);
          live.push_back({allocation, stream});
        } catch (const OutOfMemory&) {
        }
      } else if (live.empty()) {
        continue;
      } else if (choice < 7) {
        const Live& chosen = live[random() % live.size()];
        allocator.record_use(chosen.allocation, stream);
        use(chosen.allocation, stream);
      } else {
        std::swap(live[random() % live.size()], live.back());
        allocator.deallocate(live.back().allocation);
        live.pop_back();
      }
    }
    for (const Live& each : live) allocator.deallocate(each.allocation);
    allocator.empty_cache();
    EXPECT_EQ(allocator.stats().reserved, Bytes{});
    EXPECT_EQ(allocator.stats().active, Bytes{});
  }
  EXPECT_EQ(driver_.events, 0);
  EXPECT_TRUE(driver_.device.empty());
}

}  // namespace
}  // namespace ferry
