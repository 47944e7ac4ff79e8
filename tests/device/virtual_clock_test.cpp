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

TEST(VirtualClock, AThreadStartsAtTheLatestTimeAndThenHasItsOwn) {
  VirtualClock clock;
  clock.advance(5us);
  for (int i = 0; i < 3; ++i) {
    Nanoseconds begin{}, end{};
    std::thread([&] {
      begin = clock.now();
      clock.advance(1us);
      end = clock.now();
    }).join();
    EXPECT_EQ(begin, 5us + i * 1us) << "a new thread has no time of an old one, even where the system reuses its id";
    EXPECT_EQ(end, begin + 1us);
  }
  EXPECT_EQ(clock.now(), 5us);
}

TEST(VirtualClock, AThreadKeepsItsTimeWhenOthersGoAhead) {
  VirtualClock clock, other;
  clock.advance(1us);
  std::thread([&] { clock.advance_to(9us); }).join();
  other.advance(1us);  // the lookup of another clock in between
  EXPECT_EQ(clock.now(), 1us);
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
