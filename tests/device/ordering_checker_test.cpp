#include "src/device/ordering_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr StreamId kA{0}, kB{1}, kC{2}, kHost{-1};
constexpr EventId kEvent{0}, kOther{1};

class Ordering : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_ = checker_.add_driver("gpu");
    checker_.add_stream(driver_, kA, "a");
    checker_.add_stream(driver_, kB, "b");
    checker_.add_stream(driver_, kC, "c");
  }
  MemoryAccess range(std::int64_t begin, std::int64_t end, bool write) {
    return {memory_.data() + begin, end - begin, write};
  }
  void write(StreamId stream, const char* label, std::int64_t begin = 0, std::int64_t end = 100) {
    const MemoryAccess access = range(begin, end, true);
    checker_.enqueued(driver_, stream, label, {&access, 1});
  }
  void read(StreamId stream, const char* label, std::int64_t begin = 0, std::int64_t end = 100) {
    const MemoryAccess access = range(begin, end, false);
    checker_.enqueued(driver_, stream, label, {&access, 1});
  }
  void host_read(std::int64_t begin = 0, std::int64_t end = 100) {
    const MemoryAccess access = range(begin, end, false);
    checker_.host_access("host read", {&access, 1});
  }
  void host_write(std::int64_t begin = 0, std::int64_t end = 100) {
    const MemoryAccess access = range(begin, end, true);
    checker_.host_access("host write", {&access, 1});
  }
  void order(StreamId first, StreamId second, EventId event = kEvent) {
    checker_.event_recorded(driver_, event, first);
    checker_.event_waited(driver_, second, event);
  }
  static std::string error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const OrderingError& error) {
      return error.what();
    }
    return "no OrderingError";
  }

  OrderingChecker checker_;
  int driver_ = 0;
  std::array<std::byte, 1000> memory_{};
};

TEST_F(Ordering, OneStreamIsInOrder) {
  write(kA, "w");
  read(kA, "r");
  write(kA, "w again");
}

TEST_F(Ordering, ReadsDoNotConflict) {
  read(kA, "first");
  read(kB, "second");
}

TEST_F(Ordering, UnorderedConflictsAreNamed) {
  write(kA, "produce");
  EXPECT_THAT(
      error_of([&] { read(kB, "consume"); }),
      AllOf(HasSubstr("'consume' on gpu/b reads ["), HasSubstr("100 bytes"), HasSubstr("'produce' on gpu/a writes"),
            HasSubstr("record an event on gpu/a after 'produce' and let gpu/b wait for it before 'consume'")));
}

TEST_F(Ordering, AWriteConflictsWithEveryUnorderedReader) {
  read(kA, "first");
  read(kB, "second");
  order(kA, kC);
  EXPECT_THAT(error_of([&] { write(kC, "overwrite"); }), HasSubstr("'second' on gpu/b reads"));
  order(kB, kC, kOther);
  write(kC, "overwrite");
}

TEST_F(Ordering, OnlyOverlappingRangesConflict) {
  write(kA, "left", 0, 50);
  write(kB, "right", 50, 100);
  EXPECT_THAT(error_of([&] { read(kC, "middle", 49, 51); }), HasSubstr("'left'"));
  EXPECT_THAT(error_of([&] { read(kA, "all", 0, 100); }), HasSubstr("'right'"));
  read(kA, "own part", 0, 50);
}

TEST_F(Ordering, PartsOfARangeKeepTheirOwnHistory) {
  write(kA, "whole", 0, 100);
  order(kA, kB);
  write(kB, "part", 40, 60);
  read(kA, "before", 0, 40);
  read(kA, "after", 60, 100);
  EXPECT_THAT(error_of([&] { read(kA, "part again", 59, 61); }), HasSubstr("'part' on gpu/b"));
}

TEST_F(Ordering, EventsAreTransitive) {
  write(kA, "produce");
  order(kA, kB);
  order(kB, kC, kOther);
  write(kC, "consume");
}

TEST_F(Ordering, AnEventCoversOnlyWorkBeforeItsRecord) {
  checker_.event_recorded(driver_, kEvent, kA);
  write(kA, "late");
  checker_.event_waited(driver_, kB, kEvent);
  EXPECT_THAT(error_of([&] { read(kB, "consume"); }), HasSubstr("'late'"));
}

TEST_F(Ordering, TheHostMustWait) {
  write(kA, "produce");
  EXPECT_THAT(error_of([&] { host_read(); }),
              HasSubstr("let the host wait for gpu/a after 'produce' before 'host read'"));
  checker_.host_waited_stream(driver_, kB);
  EXPECT_THAT(error_of([&] { host_read(); }), HasSubstr("'produce'"));
  checker_.host_waited_stream(driver_, kA);
  host_read();
}

TEST_F(Ordering, TheHostMayReadWhatStreamsRead) {
  read(kA, "upload");
  host_read();
  EXPECT_THAT(error_of([&] { host_write(); }), HasSubstr("'upload' on gpu/a reads"));
  checker_.event_recorded(driver_, kEvent, kA);
  checker_.host_waited_event(driver_, kEvent);
  host_write();
}

TEST_F(Ordering, WorkEnqueuedAfterAHostWaitComesAfter) {
  write(kA, "produce");
  checker_.host_waited_driver(driver_);
  write(kB, "overwrite");
}

TEST_F(Ordering, UseAfterFreeIsNamed) {
  checker_.allocated(driver_, memory_.data(), 100, kA);
  write(kA, "produce");
  checker_.freed(driver_, memory_.data(), 100);
  EXPECT_THAT(error_of([&] { read(kA, "consume", 10, 20); }),
              AllOf(HasSubstr("use after free"), HasSubstr("'consume' on gpu/a")));
  EXPECT_THAT(error_of([&] { host_read(); }), HasSubstr("use after free"));
  checker_.allocated(driver_, memory_.data(), 100, kA);
  read(kA, "next owner", 10, 20);
}

TEST_F(Ordering, AFreedRangeMayBeReusedOnItsStreamAtOnce) {
  write(kA, "old");
  checker_.freed(driver_, memory_.data(), 100);
  checker_.allocated(driver_, memory_.data(), 60, kA);
  write(kA, "new", 0, 60);
}

TEST_F(Ordering, AnotherStreamMustComeAfterTheLastUse) {
  write(kA, "old");
  checker_.freed(driver_, memory_.data(), 100);
  EXPECT_THAT(error_of([&] { checker_.allocated(driver_, memory_.data(), 100, kB); }), HasSubstr("'old' on gpu/a"));
  EXPECT_THAT(error_of([&] { checker_.allocated(driver_, memory_.data(), 100, kHost); }), HasSubstr("'old' on gpu/a"));
  order(kA, kB);
  checker_.allocated(driver_, memory_.data(), 100, kB);
}

TEST_F(Ordering, UseByAThirdStreamComesAfterTheEarlierOwnersWork) {
  write(kA, "old");
  checker_.freed(driver_, memory_.data(), 100);
  checker_.allocated(driver_, memory_.data(), 100, kA);
  EXPECT_THAT(error_of([&] { write(kB, "upload"); }), HasSubstr("'old' on gpu/a"));
  checker_.host_waited_stream(driver_, kA);
  write(kB, "upload");
}

TEST_F(Ordering, NothingIsRememberedOfForgottenRanges) {
  write(kA, "old");
  checker_.freed(driver_, memory_.data(), 100);
  checker_.forgotten(memory_.data(), 50);
  write(kB, "new", 0, 50);
  EXPECT_THAT(error_of([&] { read(kB, "rest", 50, 60); }), HasSubstr("use after free"));
}

TEST_F(Ordering, DriversHaveTheirOwnStreamsAndEvents) {
  const int second = checker_.add_driver("other");
  checker_.add_stream(second, kA, "a");
  write(kA, "produce");
  checker_.event_recorded(driver_, kEvent, kA);
  checker_.event_waited(second, kA, kEvent);  // that driver's event of the same number
  const MemoryAccess access = range(0, 100, false);
  EXPECT_THAT(error_of([&] { checker_.enqueued(second, kA, "consume", {&access, 1}); }), HasSubstr("on other/a"));
}

TEST(AccessOf, SpansAViewFromFirstElementToLast) {
  float data[100];
  TensorView view{.data = data + 50, .dtype = DType::f32, .given = true, .shape = {3, 4}, .strides = {10, 1}};
  EXPECT_EQ(access_of(view, true).pointer, data + 50);
  EXPECT_EQ(access_of(view, true).size, (2 * 10 + 3 + 1) * 4);
  EXPECT_TRUE(access_of(view, true).write);
  view.strides = {-10, 0};
  EXPECT_EQ(access_of(view, false).pointer, data + 30);
  EXPECT_EQ(access_of(view, false).size, 21 * 4);
  view.shape = {3, 0};
  EXPECT_EQ(access_of(view, false).size, 0);
  view = {.data = data, .given = false, .shape = {1}, .strides = {1}};
  EXPECT_EQ(access_of(view, false).size, 0);
}

}  // namespace
}  // namespace ferry
