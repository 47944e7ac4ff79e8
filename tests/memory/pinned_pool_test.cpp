#include "src/memory/pinned_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/memory/fake_driver.h"

namespace ferry {
namespace {

using testing::FakeDriver;
using ::testing::HasSubstr;

constexpr StreamId kCompute{0};

TEST(PinnedPool, SlabsAreAtMostAFifthUnused) {
  EXPECT_EQ(PinnedPool::slab_size(Bytes{1}), kKiB * 4);
  EXPECT_EQ(PinnedPool::slab_size(kKiB * 4), kKiB * 4);
  EXPECT_EQ(PinnedPool::slab_size(kKiB * 4 + Bytes{1}), kKiB * 5);
  EXPECT_EQ(PinnedPool::slab_size(kKiB * 8), kKiB * 8);
  EXPECT_EQ(PinnedPool::slab_size(kKiB * 8 + Bytes{1}), kKiB * 10);
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const Bytes size{4097 + static_cast<std::int64_t>(random() % (1ULL << (13 + random() % 30)))};
    const Bytes slab = PinnedPool::slab_size(size);
    ASSERT_GE(slab, size);
    ASSERT_LE(slab.count - size.count, slab.count / 5) << size.count;
    ASSERT_EQ(PinnedPool::slab_size(slab), slab);
  }
}

TEST(PinnedPool, ASteadyStateCallsTheDriverNoMore) {
  FakeDriver driver;
  PinnedPool pool(driver);
  const auto step = [&] {
    std::vector<Allocation> live;
    for (const std::int64_t size : {100, 5000, 70000, 70000, 3000000}) {
      live.push_back(pool.allocate(Bytes{size}));
      pool.record_use(live.back(), kCompute);
      driver.enqueue(kCompute);
    }
    for (const Allocation& allocation : live) pool.deallocate(allocation);
    driver.synchronize();
  };
  step();
  const std::int64_t calls = driver.calls, events = driver.events;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(driver.calls, calls);
  EXPECT_EQ(driver.events, events);
  pool.deallocate(pool.allocate(Bytes{1}));
  EXPECT_EQ(pool.stats().allocated, Bytes{});
  EXPECT_EQ(pool.stats().active, Bytes{});
  EXPECT_EQ(pool.stats().reserved, driver.reserved_pinned());
  EXPECT_EQ(pool.stats().largest_free, PinnedPool::slab_size(Bytes{3000000}));
}

TEST(PinnedPool, ASlabInFlightIsNotReused) {
  FakeDriver driver;
  const StreamId copies = driver.create_stream("copies");
  PinnedPool pool(driver);
  const Allocation first = pool.allocate(kMiB);
  for (const StreamId stream : {kCompute, copies}) {
    pool.record_use(first, stream);
    driver.enqueue(stream);
  }
  pool.deallocate(first);
  driver.advance(kCompute);
  const Allocation second = pool.allocate(kMiB);
  EXPECT_NE(second.data, first.data) << "the copy stream still reads it";
  driver.advance(copies);
  const Allocation third = pool.allocate(kMiB);
  EXPECT_EQ(third.data, first.data);
  pool.deallocate(second);
  pool.deallocate(third);
}

TEST(PinnedPool, AtItsLimitItWaitsThenReturnsIdleSlabsThenFails) {
  FakeDriver driver;
  PinnedPool pool(driver, {.limit = kMiB * 2});
  const Allocation in_flight = pool.allocate(kMiB * 2);
  pool.record_use(in_flight, kCompute);
  driver.enqueue(kCompute);
  pool.deallocate(in_flight);
  const Allocation small = pool.allocate(kMiB);
  EXPECT_EQ(driver.reserved_pinned(), kMiB);
  const Allocation other = pool.allocate(kMiB);
  try {
    pool.allocate(Bytes{10});
    FAIL() << "the limit was passed";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("pinned host memory of fake: 10 bytes asked for"));
    EXPECT_EQ(error.figures().limit, kMiB * 2);
  }
  EXPECT_EQ(pool.stats().active, kMiB * 2);
  pool.deallocate(small);
  pool.deallocate(other);
  pool.empty_cache();
  EXPECT_EQ(driver.reserved_pinned(), Bytes{});
}

TEST(PinnedPool, AFailureAtAnyDriverCallChangesNothing) {
  const auto run = [](PinnedPool& pool, std::vector<Allocation>& live) {
    for (int i = 1; i < 12; ++i) live.push_back(pool.allocate(kKiB * 3 * i));
  };
  int failures = 0;
  for (std::int64_t n = 1; n <= 11; ++n) {
    FakeDriver driver;
    driver.fail_at = n;
    PinnedPool pool(driver);
    std::vector<Allocation> live;
    try {
      run(pool, live);
    } catch (const OutOfMemory&) {
      ++failures;
    }
    EXPECT_EQ(pool.stats().allocations, static_cast<std::int64_t>(live.size()));
    EXPECT_EQ(pool.stats().reserved, driver.reserved_pinned());
    for (const Allocation& allocation : live) pool.deallocate(allocation);
    live.clear();
    run(pool, live);
    for (const Allocation& allocation : live) pool.deallocate(allocation);
    pool.empty_cache();
    EXPECT_TRUE(driver.pinned.empty());
  }
  EXPECT_EQ(failures, 11);
}

}  // namespace
}  // namespace ferry
