// Random programs under budgets: on a driver that judges the order of streams, with driver calls that fail, and with
// values on the simulated GPU.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "tests/memory/allocator_program.h"
#include "tests/memory/budget_fixture.h"

namespace ferry {
namespace {

using testing::AllocatorProgram;

class BudgetPrograms : public testing::BudgetFixture {
 protected:
  const std::vector<StreamId> streams_{compute_, copies_, third_};
};

TEST_F(BudgetPrograms, KeepEveryPromiseThroughSeveralBudgets) {
  int shortages = 0, compactions = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    CachingAllocator allocator(driver_);
    AllocatorProgram program(allocator, *fake_, streams_, seed);
    for (int round = 0; round < 3; ++round) {
      for (int step = 0; step < 60; ++step) program.step(kMiB * 6);
      while (program.live().size() > 4) program.free_at(program.live().front().data);
      allocator.empty_cache();
      allocator.begin_budget(allocator.stats().reserved + kMiB * (1 + program.draw(40)));
      const Bytes limit = allocator.stats().limit;
      const std::int64_t calls = forbidden_calls();
      const auto segments = fake_->device;
      for (int step = 0; step < 400; ++step) {
        if (program.draw(100) == 0) allocator.empty_cache();
        program.step(kMiB * 6);
        const bool is_last_resort = program.draw(2) == 0;
        if (program.draw(3) == 0 && program.compact(kKiB * (1 + program.draw(9000)), is_last_resort) > Bytes{})
          ++compactions;
        ASSERT_EQ(program.fault(), "") << "seed " << seed << ", round " << round << ", step " << step;
        ASSERT_LE(fake_->reserved(), limit);
      }
      EXPECT_EQ(forbidden_calls(), calls) << "an allocation, or a wait of the host";
      EXPECT_EQ(fake_->device, segments);
      allocator.end_budget();
      ASSERT_EQ(program.fault(), "") << "seed " << seed << ", round " << round;
    }
    shortages += program.shortages;
    program.free_all();
    allocator.empty_cache();
    EXPECT_EQ(allocator.stats().reserved, Bytes{});
    EXPECT_EQ(program.fault(), "");
  }
  EXPECT_GT(shortages, 20);
  EXPECT_GT(compactions, 50);
  EXPECT_EQ(fake_->noted, 0);
}

TEST_F(BudgetPrograms, EverythingMergesBackIntoOneBlock) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    CachingAllocator allocator(driver_);
    const Bytes limit = kMiB * 30 + memory::kBlockUnit * 77;
    allocator.begin_budget(limit);
    AllocatorProgram program(allocator, *fake_, streams_, seed);
    for (int step = 0; step < 500; ++step) {
      program.step(kMiB * 6);
      if (step % 10 == 0) program.compact(kMiB * 5, step % 20 == 0);
    }
    program.free_all();
    program.allocate(limit, compute_);
    EXPECT_EQ(program.fault(), "") << "seed " << seed;
    EXPECT_EQ(program.live().front().data, fake_->device.begin()->first);
    program.free_all();
    EXPECT_EQ(allocator.stats().largest_free, limit);
    EXPECT_EQ(allocator.stats().active, Bytes{});
  }
}

// What cheapest_room names is enough, and nothing is enough where it finds no place.
TEST_F(BudgetPrograms, RoomIsWhereCheapestRoomSays) {
  int evicted = 0, none = 0, there = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    CachingAllocator allocator(driver_);
    if (seed % 2 == 0) allocator.deallocate(allocator.allocate(kMiB * 2, copies_));
    allocator.begin_budget(kMiB * 24);
    AllocatorProgram program(allocator, *fake_, streams_, seed);
    for (int turn = 0; turn < 60; ++turn) {
      for (int step = 0; step < 25; ++step) program.step(kMiB * 5);
      std::map<void*, double> costs;
      for (const Allocation& each : program.live()) {
        costs[each.data] = program.draw(4) == 0 ? std::numeric_limits<double>::infinity() : program.draw(50);
      }
      const Bytes size = program.draw(2) == 0 ? Bytes{1 + program.draw(1 << 20)} : kKiB * (1025 + program.draw(9000));
      const auto room = allocator.cheapest_room(size, [&](void* address) { return costs.at(address); });
      if (room) {
        (room->empty() ? there : evicted) += 1;
        for (void* address : *room) {
          EXPECT_LT(costs.at(address), std::numeric_limits<double>::infinity());
          program.free_at(address);
        }
        ASSERT_NO_THROW(program.allocate(size, streams_[turn % 3])) << "seed " << seed << ", turn " << turn;
      } else {
        ++none;
        for (const auto& [address, cost] : costs) {
          if (cost < std::numeric_limits<double>::infinity()) program.free_at(address);
        }
        EXPECT_THROW(program.allocate(size, compute_), OutOfMemory) << "seed " << seed << ", turn " << turn;
      }
      ASSERT_EQ(program.fault(), "") << "seed " << seed << ", turn " << turn;
    }
  }
  EXPECT_GT(evicted, 100);
  EXPECT_GT(none, 10);
  EXPECT_GT(there, 100);
}

// Each driver call of a program fails once, or all from it on, until the program has ended.
TEST_F(BudgetPrograms, AFailureAtAnyDriverCallLosesNothing) {
  const Bytes limit = kMiB * 44;
  int device_errors = 0, refused = 0;
  Bytes moved;
  const auto compact_a_fragmented_arena = [&](AllocatorProgram& program) {
    program.free_all();
    try {
      std::vector<void*> every_second;
      for (int i = 0; i < 12; ++i) {
        program.allocate(kMiB * 3 + memory::kBlockUnit * i, compute_);
        program.use_on(program.live().back(), copies_);
        if (i % 2 == 0) every_second.push_back(program.live().back().data);
      }
      for (void* address : every_second) program.free_at(address);
    } catch (const DeviceError&) {
      ++program.device_errors;
    } catch (const OutOfMemory&) {
      ++program.shortages;
    }
    for (int i = 0; i < 4; ++i) moved += program.compact(kMiB * (4 + i));
  };
  const auto run = [&](CachingAllocator& allocator) {
    AllocatorProgram program(allocator, *fake_, streams_, 6);
    for (int step = 0; step < 30; ++step) program.step(kMiB * 3);
    while (program.live().size() > 3) program.free_at(program.live().front().data);
    try {
      allocator.begin_budget(limit);
    } catch (const Error&) {
      ++refused;
      EXPECT_EQ(allocator.stats().limit, Bytes{});
    }
    EXPECT_EQ(program.fault(), "");
    for (int step = 0; step < 150; ++step) program.step(kMiB * 3);
    if (allocator.stats().limit > Bytes{}) compact_a_fragmented_arena(program);
    EXPECT_EQ(program.fault(), "");
    device_errors += program.device_errors;
    faults_->clear();
    program.free_all();
    driver_.synchronize();
    allocator.empty_cache();
    if (allocator.stats().limit == Bytes{}) allocator.begin_budget(limit);
    std::vector<Bytes> sizes;
    for (const auto& [data, size] : fake_->device) sizes.push_back(size);
    std::sort(sizes.rbegin(), sizes.rend());
    for (const Bytes size : sizes) {
      const int parts = size == kMiB * 2 ? 2 : 1;  // one of the small pool
      for (int i = 0; i < parts; ++i) program.allocate({size.count / parts}, compute_);
    }
    EXPECT_EQ(allocator.stats().active, limit) << "every segment merged back into one block";
    program.free_all();
    EXPECT_EQ(program.fault(), "");
    allocator.end_budget();
    allocator.empty_cache();
    EXPECT_EQ(allocator.stats().reserved, Bytes{});
  };
  const std::int64_t first = faults_->calls();
  {
    CachingAllocator allocator(driver_);
    run(allocator);
  }
  const std::int64_t calls = faults_->calls() - first;
  ASSERT_GT(calls, 100);
  EXPECT_EQ(device_errors + refused, 0);
  EXPECT_GT(moved, kMiB * 4);
  for (const Lasting lasting : {Lasting::once, Lasting::until_cleared}) {
    for (std::int64_t n = 1; n <= calls; ++n) {
      SCOPED_TRACE("call " + std::to_string(n) + (lasting == Lasting::once ? " once" : " and all later"));
      CachingAllocator allocator(driver_);
      faults_->fail_any(n, lasting);
      run(allocator);
      faults_->clear();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(device_errors, 100);
  EXPECT_GT(refused, 1);
}

}  // namespace
}  // namespace ferry
