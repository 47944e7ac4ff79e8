#include "src/memory/host_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/memory/fake_driver.h"

namespace ferry {
namespace {

using testing::FakeDriver;
using ::testing::HasSubstr;

TEST(HostAllocator, SmallBlocksNeedNoDriver) {
  FakeDriver driver;
  HostAllocator allocator(driver);
  const Allocation small = allocator.allocate(kKiB * 32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data) % 64, 0U);
  EXPECT_EQ(driver.calls, 0);
  EXPECT_EQ(allocator.stats().allocated, kKiB * 32);
  EXPECT_EQ(allocator.stats().reserved, kKiB * 32);
  EXPECT_EQ(driver.noted, (kKiB * 32).count);
  allocator.deallocate(small);
  EXPECT_EQ(allocator.stats().allocated, Bytes{});
  EXPECT_EQ(allocator.stats().deallocations, 1);
  EXPECT_EQ(driver.noted, 0);
}

TEST(HostAllocator, LargeBlocksAreKept) {
  FakeDriver driver;
  HostAllocator allocator(driver);
  const Allocation first = allocator.allocate(kMiB * 40);
  allocator.deallocate(first);
  const Allocation second = allocator.allocate(kMiB * 40);
  EXPECT_EQ(first.data, second.data);
  EXPECT_EQ(driver.calls, 1);
  allocator.deallocate(second);
  EXPECT_EQ(allocator.stats().reserved, kMiB * 40);
  EXPECT_EQ(allocator.stats().peak_allocated, kMiB * 40);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved, Bytes{});
}

TEST(HostAllocator, PeaksCountSmallAndLarge) {
  FakeDriver driver;
  HostAllocator allocator(driver);
  const Allocation small = allocator.allocate(kKiB);
  const Allocation large = allocator.allocate(kMiB);
  allocator.deallocate(large);
  EXPECT_EQ(allocator.stats().peak_allocated, kMiB + kKiB);
  EXPECT_EQ(allocator.stats().peak_reserved, kMiB * 2 + kKiB);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.stats().peak_allocated, kKiB);
  allocator.deallocate(small);
}

TEST(HostAllocator, TimingOnlyModeTakesEveryBlockFromTheDriver) {
  FakeDriver driver(kGiB * 64, false);
  HostAllocator allocator(driver);
  const Allocation small = allocator.allocate(Bytes{4});
  EXPECT_EQ(driver.calls, 1);
  EXPECT_EQ(allocator.stats().allocated, Bytes{4});
  allocator.deallocate(small);
  allocator.empty_cache();
  EXPECT_TRUE(driver.device.empty());
}

TEST(HostAllocator, FailuresOfTheDriverAreOutOfMemory) {
  FakeDriver driver(kMiB * 2);
  HostAllocator allocator(driver);
  try {
    allocator.allocate(kMiB * 3);
    FAIL() << "3 MiB came from 2";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("host memory"));
    EXPECT_EQ(error.figures().requested, kMiB * 3);
  }
  EXPECT_EQ(allocator.stats().allocated, Bytes{});
}

TEST(HostAllocator, RefuseFailsTheChosenAllocation) {
  FakeDriver driver;
  int calls = 0;
  HostAllocator allocator(driver, {.refuse = [&](Bytes) { return ++calls == 2; }});
  const Allocation first = allocator.allocate(Bytes{32});
  EXPECT_THROW(allocator.allocate(Bytes{32}), OutOfMemory);
  const Allocation third = allocator.allocate(Bytes{32});
  EXPECT_EQ(allocator.stats().allocations, 2);
  allocator.deallocate(first);
  allocator.deallocate(third);
}

TEST(HostAllocator, ThreadsFreeEachOthersBlocks) {
  FakeDriver driver;
  HostAllocator allocator(driver);
  std::mutex mutex;
  std::vector<Allocation> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < 3000; ++step) {
      const Allocation made = allocator.allocate(Bytes{8} * (1 + random() % (1 << (random() % 14))));
      *static_cast<void**>(made.data) = made.data;
      Allocation taken;
      {
        const std::lock_guard lock(mutex);
        shared.push_back(made);
        if (shared.size() < 40) continue;
        std::swap(shared[random() % shared.size()], shared.back());
        taken = shared.back();
        shared.pop_back();
      }
      if (*static_cast<void**>(taken.data) != taken.data) return ADD_FAILURE() << "a block has two owners";
      allocator.deallocate(taken);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  Bytes rest;
  for (const Allocation& allocation : shared) rest += allocation.size;
  EXPECT_EQ(allocator.stats().allocated, rest);
  for (const Allocation& allocation : shared) allocator.deallocate(allocation);
  EXPECT_EQ(allocator.stats().allocated, Bytes{});
  EXPECT_EQ(allocator.stats().active, Bytes{});
  EXPECT_EQ(allocator.stats().allocations, 9000);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(HostAllocatorDeathTest, AddressSanitizerSeesUsesAfterFree) {
  for (const Bytes size : {Bytes{100}, kKiB * 100, kMiB * 30}) {
    FakeDriver driver;
    HostAllocator allocator(driver);
    const Allocation allocation = allocator.allocate(size);
    auto* bytes = static_cast<volatile char*>(allocation.data);
    bytes[size.count - 1] = 1;
    EXPECT_DEATH(bytes[size.count] = 1, "AddressSanitizer") << size.count;
    allocator.deallocate(allocation);
    EXPECT_DEATH(bytes[0] = 1, "AddressSanitizer") << size.count;
  }
}
#endif

}  // namespace
}  // namespace ferry
