#include "src/memory/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/memory/fake_driver.h"

namespace ferry {
namespace {

using testing::FakeDriver;
using ::testing::HasSubstr;

constexpr StreamId kStream{0};

bool overlap(const Allocation& a, const Allocation& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.data);
  const auto* b_begin = static_cast<const std::byte*>(b.data);
  return a_begin < b_begin + b.size.count && b_begin < a_begin + a.size.count;
}

// What is wrong with the live allocations and the statistics; empty when nothing is.
std::string fault(const std::vector<Allocation>& live, const AllocatorStats& stats, const FakeDriver& driver) {
  Bytes allocated;
  for (std::size_t i = 0; i < live.size(); ++i) {
    allocated += live[i].size;
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(live[i], live[j])) return "two live allocations overlap";
    }
    const auto inside = [&](const auto& segment) {
      const auto* begin = static_cast<const std::byte*>(segment.first);
      const auto* data = static_cast<const std::byte*>(live[i].data);
      return data >= begin && data + live[i].size.count <= begin + segment.second.count;
    };
    if (std::none_of(driver.device.begin(), driver.device.end(), inside)) return "an allocation is in no segment";
  }
  if (stats.allocated != allocated) return "allocated differs from a recount";
  if (stats.reserved != driver.reserved()) return "reserved differs from the driver's";
  if (stats.segments != static_cast<std::int64_t>(driver.device.size())) return "the number of segments is wrong";
  if (stats.active < allocated || stats.active > stats.reserved) return "active is not between allocated and reserved";
  if (stats.allocations - stats.deallocations != static_cast<std::int64_t>(live.size())) return "counts are wrong";
  return "";
}

TEST(CachingAllocator, SegmentSizesFollowTheRequest) {
  const struct {
    Bytes asked, segment;
  } cases[] = {{Bytes{1}, kMiB * 2},         {kMiB, kMiB * 2},
               {kMiB + Bytes{1}, kMiB * 20}, {kMiB * 10 - Bytes{512}, kMiB * 20},
               {kMiB * 10, kMiB * 10},       {kMiB * 10 + Bytes{1}, kMiB * 12},
               {kMiB * 45, kMiB * 46}};
  for (const auto& [asked, segment] : cases) {
    FakeDriver driver;
    CachingAllocator allocator(driver);
    const Allocation allocation = allocator.allocate(asked, kStream);
    EXPECT_EQ(driver.reserved(), segment) << asked.count;
    EXPECT_EQ(allocation.size, asked);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.data) % 512, 0U);
    allocator.deallocate(allocation);
  }
}

TEST(CachingAllocator, SizeZeroIsANullBlock) {
  FakeDriver driver;
  CachingAllocator allocator(driver);
  const Allocation nothing = allocator.allocate({}, kStream);
  EXPECT_FALSE(nothing);
  allocator.record_use(nothing, kStream);
  allocator.deallocate(nothing);
  EXPECT_EQ(allocator.stats().allocations, 0);
  EXPECT_THROW(allocator.allocate(Bytes{-1}, kStream), InvalidArgument);
}

TEST(CachingAllocator, AFreedBlockIsReusedOnItsStreamWithoutADriverCall) {
  FakeDriver driver;
  CachingAllocator allocator(driver);
  const Allocation first = allocator.allocate(kKiB * 100, kStream);
  allocator.deallocate(first);
  const Allocation second = allocator.allocate(kKiB * 100, kStream);
  EXPECT_EQ(first.data, second.data);
  EXPECT_EQ(driver.calls, 1);
  EXPECT_EQ(driver.noted, (kKiB * 100).count);
  allocator.deallocate(second);
  EXPECT_EQ(driver.noted, 0);
}

TEST(CachingAllocator, StatisticsSayWhatIsHeld) {
  FakeDriver driver;
  CachingAllocator allocator(driver);
  const Allocation a = allocator.allocate(Bytes{1000}, kStream);
  const Allocation b = allocator.allocate(Bytes{1000}, kStream);
  AllocatorStats stats = allocator.stats();
  EXPECT_EQ(stats.allocated, Bytes{2000});
  EXPECT_EQ(stats.active, Bytes{2048});
  EXPECT_EQ(stats.reserved, kMiB * 2);
  EXPECT_EQ(stats.largest_free, kMiB * 2 - Bytes{2048});
  EXPECT_EQ(stats.fragmentation(), 0);
  allocator.deallocate(a);
  stats = allocator.stats();
  EXPECT_EQ(stats.peak_allocated, Bytes{2000});
  EXPECT_NEAR(stats.fragmentation(), 1024.0 / (2097152 - 1024), 1e-12);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.stats().peak_allocated, Bytes{1000});
  allocator.deallocate(b);
  allocator.empty_cache();
  stats = allocator.stats();
  EXPECT_EQ(stats.reserved, Bytes{});
  EXPECT_EQ(stats.segments, 0);
  EXPECT_EQ(stats.peak_reserved, kMiB * 2);
}

TEST(CachingAllocator, TakesASegmentThatJustFitsWhenTheUsualOneDoesNot) {
  FakeDriver driver(kMiB * 5);
  CachingAllocator allocator(driver);
  const Allocation allocation = allocator.allocate(kMiB * 4, kStream);
  EXPECT_EQ(driver.reserved(), kMiB * 4);
  allocator.deallocate(allocation);
}

TEST(CachingAllocator, ReturnsCachedSegmentsBeforeItFails) {
  FakeDriver driver(kMiB * 40);
  CachingAllocator allocator(driver);
  allocator.deallocate(allocator.allocate(kMiB * 30, kStream));
  const Allocation allocation = allocator.allocate(kMiB * 36, kStream);
  EXPECT_EQ(driver.reserved(), kMiB * 36);
  allocator.deallocate(allocation);
}

TEST(CachingAllocator, NeverReservesMoreThanTheLimit) {
  FakeDriver driver;
  CachingAllocator allocator(driver, {.limit = kMiB * 64});
  std::mt19937 random(1);
  std::vector<Allocation> live;
  int failures = 0;
  for (int step = 0; step < 400; ++step) {
    if (random() % 2 == 0 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      allocator.deallocate(live.back());
      live.pop_back();
    } else {
      try {
        live.push_back(allocator.allocate(kKiB * (1 + random() % 16000), kStream));
      } catch (const OutOfMemory& error) {
        ++failures;
        EXPECT_EQ(error.figures().limit, kMiB * 64);
      }
    }
    ASSERT_LE(driver.reserved(), kMiB * 64);
    ASSERT_EQ(fault(live, allocator.stats(), driver), "");
  }
  EXPECT_GT(failures, 0);
  for (const Allocation& allocation : live) allocator.deallocate(allocation);
}

TEST(CachingAllocator, AsksOnFailureUntilThereIsRoom) {
  FakeDriver driver(kMiB * 32);
  std::vector<Allocation> evictable;
  std::vector<Bytes> asked;
  CachingAllocator* self = nullptr;
  CachingAllocator allocator(driver, {.on_failure = [&](Bytes size) {
                               asked.push_back(size);
                               if (evictable.empty()) return false;
                               self->deallocate(evictable.back());
                               evictable.pop_back();
                               return true;
                             }});
  self = &allocator;
  for (int i = 0; i < 2; ++i) evictable.push_back(allocator.allocate(kMiB * 16, kStream));
  const Allocation allocation = allocator.allocate(kMiB * 30, kStream);
  EXPECT_EQ(asked, (std::vector<Bytes>{kMiB * 30, kMiB * 30}));
  EXPECT_THROW(allocator.allocate(kMiB * 4, kStream), OutOfMemory);
  allocator.deallocate(allocation);
}

TEST(CachingAllocator, OutOfMemoryCarriesItsFigures) {
  FakeDriver driver(kGiB * 4);
  CachingAllocator allocator(driver);
  try {
    allocator.allocate(Bytes{6'000'000'000}, kStream);
    FAIL() << "6 GB came from a device of 4 GiB";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.figures().requested, Bytes{6'000'000'000});
    EXPECT_EQ(error.figures().limit, kGiB * 4);
    EXPECT_THAT(error.what(), HasSubstr("6,000,000,000 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("fake"));
  }
  EXPECT_THROW(allocator.allocate(Bytes{std::numeric_limits<std::int64_t>::max()}, kStream), OutOfMemory);
}

TEST(CachingAllocator, NamesFragmentationWhenThatIsTheReason) {
  FakeDriver driver(kMiB * 20);
  CachingAllocator allocator(driver);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocator.allocate(kMiB * 4, kStream));
  for (const int i : {0, 2, 4}) allocator.deallocate(blocks[i]);
  EXPECT_NEAR(allocator.stats().fragmentation(), 2.0 / 3, 1e-12);
  try {
    allocator.allocate(kMiB * 8, kStream);
    FAIL() << "8 MiB came from holes of 4 MiB";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("largest free block is 4.00 MiB of 12.00 MiB free: fragmentation"));
  }
  for (const int i : {1, 3}) allocator.deallocate(blocks[i]);
  EXPECT_EQ(allocator.stats().largest_free, kMiB * 20);
}

TEST(CachingAllocator, RandomProgramsNeitherOverlapNorLeak) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    FakeDriver driver;
    CachingAllocator allocator(driver);
    std::mt19937 random(seed);
    std::vector<Allocation> live;
    for (int step = 0; step < 800; ++step) {
      if (random() % 100 == 0) allocator.empty_cache();
      if (random() % 5 < 2 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        allocator.deallocate(live.back());
        live.pop_back();
      } else {
        live.push_back(allocator.allocate(Bytes{1} * (1 + random() % (1 << (random() % 25))), kStream));
      }
      ASSERT_EQ(fault(live, allocator.stats(), driver), "") << "seed " << seed << ", step " << step;
    }
    for (const Allocation& allocation : live) allocator.deallocate(allocation);
    const AllocatorStats stats = allocator.stats();
    EXPECT_EQ(stats.active, Bytes{});
    Bytes largest;
    for (const auto& [pointer, size] : driver.device) largest = std::max(largest, size);
    EXPECT_EQ(stats.largest_free, largest) << "blocks did not merge back into whole segments";
    EXPECT_EQ(driver.noted, 0);
    allocator.empty_cache();
    EXPECT_TRUE(driver.device.empty());
  }
}

// The program of the failure test: allocates, frees every other, allocates more.
void run_program(CachingAllocator& allocator, std::vector<Allocation>& live) {
  std::mt19937 random(3);
  for (int step = 0; step < 60; ++step) {
    if (step % 3 == 2) {
      allocator.deallocate(live.back());
      live.pop_back();
    } else {
      live.push_back(allocator.allocate(kKiB * (1 + random() % 30000), kStream));
    }
  }
}

// Fails four calls in a row: the usual segment and one that just fits, before and after cached ones were returned.
TEST(CachingAllocator, AFailureAtAnyDriverCallChangesNothing) {
  std::int64_t calls = 0;
  {
    FakeDriver driver;
    CachingAllocator allocator(driver);
    std::vector<Allocation> live;
    run_program(allocator, live);
    calls = driver.calls;
  }
  ASSERT_GT(calls, 5);
  int failures = 0;
  for (std::int64_t n = 1; n <= calls; ++n) {
    FakeDriver driver;
    driver.fail_at = n;
    driver.failures = 4;
    CachingAllocator allocator(driver);
    std::vector<Allocation> live;
    try {
      run_program(allocator, live);
    } catch (const OutOfMemory&) {
      ++failures;
    }
    ASSERT_EQ(fault(live, allocator.stats(), driver), "") << "call " << n << " failed";
    for (const Allocation& allocation : live) allocator.deallocate(allocation);
    live.clear();
    driver.failures = 0;
    run_program(allocator, live);
    for (const Allocation& allocation : live) allocator.deallocate(allocation);
    allocator.empty_cache();
    EXPECT_TRUE(driver.device.empty());
  }
  EXPECT_GT(failures, 0);
}

TEST(CachingAllocator, ThreadsShareIt) {
  FakeDriver driver;
  CachingAllocator allocator(driver);
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Allocation> live;
    for (int step = 0; step < 3000; ++step) {
      if (live.size() > 20) {
        auto& chosen = live[random() % live.size()];
        if (*static_cast<unsigned*>(chosen.data) != seed) return ADD_FAILURE() << "a block has two owners";
        allocator.deallocate(chosen);
        std::swap(chosen, live.back());
        live.pop_back();
      }
      live.push_back(allocator.allocate(Bytes{4} * (1 + random() % 5000), kStream));
      *static_cast<unsigned*>(live.back().data) = seed;
    }
    for (const Allocation& allocation : live) allocator.deallocate(allocation);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.stats().active, Bytes{});
  EXPECT_EQ(allocator.stats().allocations, 9000);
}

}  // namespace
}  // namespace ferry
