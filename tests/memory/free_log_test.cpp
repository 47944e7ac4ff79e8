#include "src/memory/free_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>

#include "tests/memory/budget_fixture.h"
#include "tests/memory/heap_addresses.h"

namespace ferry::memory {
namespace {

using testing::FakeDriver;
using Range = FreeLog::Range;

// Addresses are counted in pieces of an arena that is never touched.
constexpr Bytes kPiece = kKiB * 16;
constexpr std::int64_t kPieces = 512;

std::byte* piece(std::int64_t number) { return address(1) + (kPiece * number).count; }

struct Pieces {
  std::int64_t first = 0, last = 0;  // [first, last)

  std::int64_t count() const { return last - first; }
  Range range() const { return {piece(first), piece(last)}; }
};

// What the log is to know: for each piece the last work of the compute stream before it was given back, and the work
// before each mark that is kept. Slow, and independent of how the log works.
class FreeLogModel {
 public:
  static constexpr std::size_t kMarks = 32;
  static constexpr std::int64_t kEntries = 4096;

  struct Mark {
    std::int64_t work = 0, entries = 0;
  };
  struct Place {
    std::int64_t work = 0;     // of the mark
    std::vector<Pieces> gaps;  // the smallest
  };

  void freed(Pieces pieces, std::int64_t work) {
    for (std::int64_t i = pieces.first; i < pieces.last; ++i) last_use_[static_cast<std::size_t>(i)] = work;
    ++entries_;
  }
  void marked(std::int64_t work) {
    make_room();
    marks_.push_back({work, entries_});
  }
  // Of an event that could not be recorded again it is not known which mark it is.
  void make_room() {
    if (marks_.size() == kMarks) marks_.pop_front();
  }

  // The work before the mark; unset: none.
  std::optional<std::int64_t> free_since(Pieces pieces) const {
    for (const Mark& mark : known()) {
      bool any_late = false;
      for (std::int64_t i = pieces.first; i < pieces.last; ++i) any_late = any_late || is_late(i, mark.work);
      if (!any_late) return mark.work;
    }
    return std::nullopt;
  }
  std::optional<Place> earliest(std::int64_t count, const std::vector<Pieces>& free, Pieces besides,
                                std::optional<std::int64_t> before) const {
    for (const Mark& mark : known()) {
      if (before && mark.work >= *before) break;
      Place place{mark.work, {}};
      for (const Pieces& range : free) {
        for (std::int64_t first = range.first; first < range.last;) {
          std::int64_t last = first;
          while (last < range.last && !is_late(last, mark.work) && (last < besides.first || last >= besides.last))
            ++last;
          if (last - first >= count) offer({first, last}, place.gaps);
          first = last + 1;
        }
      }
      if (!place.gaps.empty()) return place;
    }
    return std::nullopt;
  }

 private:
  std::vector<Mark> known() const {
    std::vector<Mark> known;
    for (const Mark& mark : marks_)
      if (entries_ - mark.entries <= kEntries) known.push_back(mark);
    return known;
  }
  bool is_late(std::int64_t number, std::int64_t work) const {
    return last_use_[static_cast<std::size_t>(number)] > work;
  }
  static void offer(Pieces gap, std::vector<Pieces>& smallest) {
    if (!smallest.empty() && gap.count() > smallest.front().count()) return;
    if (!smallest.empty() && gap.count() < smallest.front().count()) smallest.clear();
    smallest.push_back(gap);
  }

  std::array<std::int64_t, kPieces> last_use_{};
  std::int64_t entries_ = 0;
  std::deque<Mark> marks_;
};

class FreeLogTest : public testing::BudgetFixture {
 protected:
  FreeLogTest() { log_.begin(kPiece * kPieces); }

  FakeDriver::Work freed(Pieces pieces) {
    const FakeDriver::Work work = fake_->enqueue(compute_);
    log_.freed(piece(pieces.first), kPiece * pieces.count());
    model_.freed(pieces, work.number);
    return last_ = work;
  }
  // Whether there is a new mark.
  bool keep_marks() {
    const std::int64_t records = faults_->calls(DriverCall::record_event);
    log_.keep_marks();
    if (faults_->calls(DriverCall::record_event) == records) return false;
    model_.marked(last_.number);
    return true;
  }
  // The event was recorded after that work and before the next.
  bool is_of_mark(EventId event, std::int64_t work) {
    return fake_->follows(event, {compute_, work}) && !fake_->follows(event, {compute_, work + 1});
  }
  // Work that nothing waits for ends the time of a mark.
  void pass() { last_ = fake_->enqueue(compute_); }

  std::string fault_of_free_since(Pieces pieces) {
    const auto expected = model_.free_since(pieces);
    const auto event = log_.free_since(pieces.range());
    if (expected.has_value() != event.has_value()) return expected ? "no event is named" : "an event is named";
    if (event && !is_of_mark(*event, *expected)) return "not the mark behind work " + std::to_string(*expected);
    return "";
  }
  std::string fault_of_earliest(std::int64_t count, const std::vector<Pieces>& free, Pieces besides,
                                std::optional<Pieces> wish = std::nullopt) {
    std::vector<Range> ranges;
    for (const Pieces& each : free) ranges.push_back(each.range());
    const auto expected = model_.earliest(count, free, besides, wish ? model_.free_since(*wish) : std::nullopt);
    const auto place = log_.earliest(kPiece * count, ranges, besides.count() > 0 ? besides.range() : Range{},
                                     wish ? log_.free_since(wish->range()) : std::nullopt);
    if (expected.has_value() != place.has_value()) return expected ? "no place is named" : "a place is named";
    if (!place) return "";
    places_ += 1;
    if (!is_of_mark(place->since, expected->work)) return "not the mark behind work " + std::to_string(expected->work);
    const auto begins = [&](const Pieces& gap) { return piece(gap.first) == place->address; };
    return std::ranges::any_of(expected->gaps, begins) ? "" : "not at the begin of the smallest gap";
  }

  FreeLog log_{driver_, compute_};
  FreeLogModel model_;
  FakeDriver::Work last_{compute_, 0};
  int places_ = 0;
};

TEST_F(FreeLogTest, KnowsNothingBeforeTheFirstMark) {
  const Range all = Pieces{0, kPieces}.range();
  EXPECT_FALSE(log_.free_since(all));
  EXPECT_FALSE(log_.earliest(kPiece, {{all}}, {}));
  EXPECT_TRUE(keep_marks()) << "what is free in a new arena";
  EXPECT_TRUE(log_.free_since(all));
  EXPECT_FALSE(keep_marks()) << "nothing was given back since";
}

//   pieces  0        100       200       300            work, in order: a, mark, b, mark, c
//           | b      | a       | c       | never given back
TEST_F(FreeLogTest, NamesTheFirstMarkAfterAllOfARangeWasGivenBack) {
  keep_marks();
  log_.freed(piece(0), kPiece * kPieces);  // enough for a mark
  const FakeDriver::Work a = freed({100, 200});
  ASSERT_TRUE(keep_marks());
  const FakeDriver::Work b = freed({0, 100});
  freed({300, 500});
  ASSERT_TRUE(keep_marks());
  const FakeDriver::Work c = freed({200, 210});
  EXPECT_FALSE(keep_marks());
  const auto since = [&](std::int64_t first, std::int64_t last) {
    return log_.free_since(Pieces{first, last}.range());
  };
  ASSERT_TRUE(since(100, 200));
  EXPECT_TRUE(is_of_mark(*since(100, 200), a.number));
  EXPECT_TRUE(is_of_mark(*since(150, 151), a.number));
  ASSERT_TRUE(since(99, 101));
  EXPECT_TRUE(fake_->follows(*since(99, 101), b)) << "a part was given back later";
  EXPECT_FALSE(fake_->follows(*since(99, 101), c));
  EXPECT_TRUE(since(0, 200));
  EXPECT_FALSE(since(200, 201)) << "there was no mark since";
  EXPECT_FALSE(since(0, 201));
  EXPECT_TRUE(is_of_mark(*since(210, 300), a.number)) << "given back before the second mark, with all others";
}

TEST_F(FreeLogTest, MarksWhenAPartOfTheArenaOrManyRangesWereGivenBack) {
  for (const auto& [arena, step] : {std::pair{kMiB * 64, kMiB * 4}, std::pair{kGiB * 3, kMiB * 96}}) {
    log_.begin(arena);
    EXPECT_TRUE(keep_marks());
    log_.freed(piece(0), step - kPiece);
    EXPECT_FALSE(keep_marks());
    log_.freed(piece(0), kPiece);
    EXPECT_TRUE(keep_marks());
    for (int i = 0; i < 127; ++i) log_.freed(piece(i), kBlockUnit);
    EXPECT_FALSE(keep_marks());
    log_.freed(piece(0), kBlockUnit);
    EXPECT_TRUE(keep_marks());
  }
  EXPECT_LE(fake_->events, 32);
}

TEST_F(FreeLogTest, TheLatestMarksAreKept) {
  ASSERT_TRUE(keep_marks());
  for (int i = 0; i < 100; ++i) {
    freed({i, i + 300});
    ASSERT_TRUE(keep_marks());
  }
  EXPECT_EQ(fake_->events, 32);
  const auto never = log_.free_since(Pieces{500, 501}.range());
  ASSERT_TRUE(never);
  EXPECT_TRUE(is_of_mark(*never, last_.number - 31)) << "the oldest one kept";
  for (int i = 0; i < 100; ++i) {
    const auto since = log_.free_since(Pieces{i, i + 1}.range());
    ASSERT_TRUE(since);
    EXPECT_TRUE(is_of_mark(*since, std::max(last_.number - 99 + i, last_.number - 31))) << i;
  }
}

TEST_F(FreeLogTest, WhatWasOverwrittenIsNotGuessed) {
  ASSERT_TRUE(keep_marks());
  pass();
  freed({0, 300});
  ASSERT_TRUE(keep_marks());
  for (int i = 0; i < 4096; ++i) freed({0, 1});
  const auto since = log_.free_since(Pieces{400, 401}.range());
  ASSERT_TRUE(since);
  EXPECT_TRUE(is_of_mark(*since, 2)) << "entries behind the first mark are gone";
  freed({0, 1});
  EXPECT_FALSE(log_.free_since(Pieces{400, 401}.range()));
  EXPECT_FALSE(log_.earliest(kPiece, {{Pieces{1, kPieces}.range()}}, {}));
  ASSERT_TRUE(keep_marks());
  EXPECT_TRUE(is_of_mark(log_.free_since(Pieces{0, kPieces}.range()).value(), last_.number));
}

//   0         50        100       150       200       250       300
//   | early   | late    | early   | taken   | early   | taken   | latest  |   free: [0, 150), [200, 250), [300, 512)
TEST_F(FreeLogTest, TheEarliestPlaceIsTheSmallestGap) {
  keep_marks();
  const Pieces late{50, 100}, latest{300, kPieces};
  freed(latest);
  const FakeDriver::Work first = freed({0, kPieces});
  ASSERT_TRUE(keep_marks());
  freed(late);
  freed({150, 200});
  freed({250, 300});
  for (int i = 0; i < 2; ++i) freed(latest);
  ASSERT_TRUE(keep_marks());
  const FakeDriver::Work second = last_;
  freed(latest);
  const std::array<Range, 3> free{Pieces{0, 150}.range(), Pieces{200, 250}.range(), Pieces{300, kPieces}.range()};
  const auto place = [&](std::int64_t count, Pieces besides = {}) {
    const auto found = log_.earliest(kPiece * count, free, besides.count() > 0 ? besides.range() : Range{});
    if (!found) return std::pair{std::int64_t{-1}, std::int64_t{0}};
    const std::int64_t at = (found->address - piece(0)) / kPiece.count;
    return std::pair{at, is_of_mark(found->since, first.number) ? first.number : second.number};
  };
  using Found = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(place(50), Found(0, first.number));
  EXPECT_EQ(place(50, {10, 20}), Found(100, first.number));
  EXPECT_EQ(place(50, {0, 101}), Found(200, first.number)) << "as small";
  EXPECT_EQ(place(20, {30, 40}), Found(0, first.number)) << "30 before it are fewer than 50";
  EXPECT_EQ(place(51), Found(0, second.number));
  EXPECT_EQ(place(150), Found(0, second.number));
  EXPECT_EQ(place(70, {10, 20}), Found(20, second.number));
  EXPECT_EQ(place(151).first, -1) << "the rest has no mark";
  const EventId mark = log_.free_since(late.range()).value();
  EXPECT_FALSE(log_.earliest(kPiece * 51, free, {}, mark)) << "not before that mark";
  EXPECT_TRUE(log_.earliest(kPiece * 50, free, {}, mark));
}

TEST_F(FreeLogTest, NeighboursThatAreNotOneBlockAreNotOnePlace) {
  keep_marks();
  const std::array<Range, 2> free{Pieces{0, 10}.range(), Pieces{10, 30}.range()};
  EXPECT_EQ(log_.earliest(kPiece * 10, free, {}).value().address, piece(0));
  EXPECT_EQ(log_.earliest(kPiece * 11, free, {}).value().address, piece(10));
  EXPECT_FALSE(log_.earliest(kPiece * 21, free, {}));
}

TEST_F(FreeLogTest, AFailedMarkIsMadeUpForLater) {
  for (const DriverCall call : {DriverCall::create_event, DriverCall::record_event}) {
    for (const int marks : {0, 1, 5, 31, 32, 40}) {
      SCOPED_TRACE(marks);
      model_ = {};
      log_.begin(kPiece * kPieces);
      for (int i = 0; i < marks; ++i) {
        ASSERT_TRUE(keep_marks());
        freed({i, i + 300});
      }
      const std::int64_t failures = faults_->failures();
      faults_->fail(call, 1, Lasting::until_cleared);
      for (int i = 0; i < 2; ++i) {
        try {
          keep_marks();
        } catch (const DeviceError&) {
          model_.make_room();
        }
        for (std::int64_t at = 0; at < 400; at += 7) EXPECT_EQ(fault_of_free_since({at, at + 10}), "") << at;
      }
      if (call == DriverCall::record_event) {
        EXPECT_EQ(faults_->failures(), failures + 2);
      }
      faults_->clear();
      keep_marks();
      EXPECT_TRUE(log_.free_since(Pieces{0, kPieces}.range())) << "what was due";
      for (std::int64_t at = 0; at < 400; at += 7) EXPECT_EQ(fault_of_free_since({at, at + 10}), "") << at;
    }
  }
  EXPECT_LE(fake_->events, 32);
}

class FreeLogPrograms : public FreeLogTest {
 protected:
  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  Pieces any(std::int64_t most) {
    const std::int64_t count = 1 + draw(most), first = draw(kPieces - count + 1);
    return {first, first + count};
  }
  // In order, some of them neighbours.
  std::vector<Pieces> any_free(std::int64_t most) {
    std::vector<Pieces> free;
    for (std::int64_t at = draw(20); at < kPieces;) {
      const std::int64_t last = std::min(at + 1 + draw(most), kPieces);
      free.push_back({at, last});
      at = last + (draw(3) == 0 ? 0 : draw(40));
    }
    return free;
  }
  void fail_to_mark() {
    faults_->fail(DriverCall::record_event, 1);
    try {
      log_.keep_marks();
    } catch (const DeviceError&) {
      model_.make_room();
    }
    faults_->clear();
  }
  // Many small ranges are given back, and there is no allocation.
  void overflow() {
    for (std::int64_t i = 3900 + draw(300); i > 0; --i) freed(any(2));
  }
  void change(std::int64_t largest) {
    const std::int64_t choice = draw(1000);
    if (choice == 0) {
      overflow();
    } else if (choice == 1) {
      log_.begin(kPiece * kPieces);
      model_ = {};
    } else if (choice < 20) {
      fail_to_mark();
    } else if (choice < 100) {
      marks_ += keep_marks();
    } else {
      freed(any(largest));
    }
  }
  std::string look(std::int64_t largest) {
    if (draw(2) == 0) return fault_of_free_since(any(largest));
    const std::vector<Pieces> free = any_free(largest * 2);
    const Pieces besides = draw(3) == 0 ? Pieces{} : any(largest);
    return fault_of_earliest(1 + draw(largest), free, besides, draw(2) == 0 ? std::optional(besides) : std::nullopt);
  }

  std::mt19937_64 random_;
  int marks_ = 0;
};

TEST_F(FreeLogPrograms, NameWhatTheModelNames) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    log_.begin(kPiece * kPieces);
    model_ = {};
    // Of 64 pieces few make a mark, of one or two many.
    const std::int64_t largest = seed % 3 == 0 ? 64 : seed % 3 == 1 ? 16 : 2;
    for (int step = 0; step < 3000; ++step) {
      change(largest);
      if (step % 8 != 0) continue;
      ASSERT_EQ(look(largest), "") << "step " << step;
    }
  }
  EXPECT_GT(marks_, 500);
  EXPECT_GT(places_, 500);
  EXPECT_EQ(fake_->events, 32);
}

}  // namespace
}  // namespace ferry::memory
