#include "src/device/virtual_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace ferry {
namespace {

using namespace std::chrono_literals;

TEST(VirtualClock, StartsAtZeroAndMovesOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_TRUE(clock.is_virtual());
  EXPECT_EQ(clock.now(), 0ns);
  clock.advance(5us);
  clock.advance(2us);
  EXPECT_EQ(clock.now(), 7us);
}

TEST(VirtualClock, AdvanceToNeverMovesBack) {
  VirtualClock clock;
  clock.advance_to(9us);
  clock.advance_to(4us);
  EXPECT_EQ(clock.now(), 9us);
}

TEST(VirtualClock, EachThreadHasItsOwnTime) {
  VirtualClock clock;
  clock.advance(5us);
  for (int i = 0; i < 3; ++i) {
    Nanoseconds begin{}, end{};
    std::thread([&] {
      begin = clock.now();
      clock.advance(1us);
      end = clock.now();
    }).join();
    EXPECT_EQ(begin, 0ns) << "a new thread starts at zero even where the system reuses a thread id";
    EXPECT_EQ(end, 1us);
  }
  EXPECT_EQ(clock.now(), 5us);
}

TEST(VirtualClock, ClocksDoNotShareTime) {
  VirtualClock first, second;
  first.advance(3us);
  second.advance(8us);
  EXPECT_EQ(first.now(), 3us);
  EXPECT_EQ(second.now(), 8us);
}

TEST(VirtualClock, ANewClockStartsAtZeroWhereAnOldOneLived) {
  for (int i = 0; i < 4; ++i) {
    VirtualClock clock;
    EXPECT_EQ(clock.now(), 0ns);
    clock.advance(1us);
  }
}

TEST(RealClock, IsMonotonic) {
  const RealClock clock;
  EXPECT_FALSE(clock.is_virtual());
  const Nanoseconds first = clock.now();
  EXPECT_GE(first, 0ns);
  EXPECT_GE(clock.now(), first);
}

}  // namespace
}  // namespace ferry
