#include "src/memory/thread_counters.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace ferry::memory {
namespace {

TEST(ThreadCounters, SumIsExactWhateverThreadCounts) {
  auto counters = std::make_unique<ThreadCounters>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10000; ++n) counters->count_allocation(3);
      for (int n = 0; n < 4000; ++n) counters->count_deallocation(3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const AllocationCounts sum = counters->sum();
  EXPECT_EQ(sum.bytes, 4 * 6000 * 3);
  EXPECT_EQ(sum.allocations, 40000);
  EXPECT_EQ(sum.deallocations, 16000);
}

TEST(ThreadCounters, ThreadsAtATimeHaveTheirOwnSlotAndPassItOn) {
  const int mine = thread_slot();
  std::set<int> seen;
  for (int round = 0; round < 3; ++round) {
    int first = -1, second = -1;
    std::barrier both(2);
    const auto claim = [&](int& slot) {
      slot = thread_slot();
      both.arrive_and_wait();
    };
    std::thread a(claim, std::ref(first)), b(claim, std::ref(second));
    a.join();
    b.join();
    EXPECT_NE(first, second);
    EXPECT_NE(first, mine);
    seen.insert({first, second});
  }
  EXPECT_EQ(seen.size(), 2U) << "slots of ended threads were not used again";
}

TEST(ThreadCounters, MoreThreadsThanSlotsStillCountExactly) {
  auto counters = std::make_unique<ThreadCounters>();
  constexpr int kThreads = kThreadSlots + 10;
  std::barrier all(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      thread_slot();
      all.arrive_and_wait();
      for (int n = 0; n < 100; ++n) counters->count_allocation(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters->sum().bytes, kThreads * 100);
}

}  // namespace
}  // namespace ferry::memory
