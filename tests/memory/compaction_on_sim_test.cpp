// Blocks that move on the simulated GPU: every byte of what moved is right in any legal order of the device's work, the
// ordering checker is quiet, and a driver that refuses a call loses nothing.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "src/memory/caching_allocator.h"
#include "tests/sim/sim_fixture.h"
#include "tests/support/fault_injecting_driver.h"

namespace ferry {
namespace {

class CompactionOnSim : public SimFixture {
 protected:
  struct Item {
    std::int64_t number;
    Allocation allocation;
    bool stays;
  };

  void open_for(unsigned seed) {
    random_.seed(seed);
    open({.order = {.adversarial = seed % 2 == 1, .seed = seed}, .checker = std::make_shared<OrderingChecker>()});
    driver_->set_work_observer(nullptr);
    driver_ = std::make_unique<FaultInjectingDriver>(std::move(driver_), faults_);
    sends_ = driver_->create_stream("h2d");
    fetches_ = driver_->create_stream("d2h");
    slots_ = driver_->allocate_pinned(kLargest * kSlots);
  }
  void close() {
    driver_->free_pinned(slots_, kLargest * kSlots);
    driver_.reset();
  }
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }
  void order(StreamId earlier, StreamId later) {
    const EventId event = driver_->create_event();
    driver_->record_event(event, earlier);
    driver_->wait_event(later, event);
    driver_->destroy_event(event);
  }

  static std::vector<std::uint32_t> contents(const Item& item) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(item.allocation.size.count) / 4);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = static_cast<std::uint32_t>(i) * 2654435761U ^ static_cast<std::uint32_t>(item.number);
    }
    return words;
  }
  void make(CachingAllocator& allocator, Bytes size) {
    const StreamId stream = draw(2) == 0 ? sends_ : StreamId{0};
    const Item item{next_++, allocator.allocate(size, stream), draw(6) == 0};
    upload(item.allocation.data, contents(item).data(), size, stream, HostMemory::pageable);
    order(stream, {0});
    live_.push_back(item);
  }
  // A copy that may still be under way when the block moves or is given back.
  void read(CachingAllocator& allocator, const Item& item) {
    if (reads_.size() == kSlots) check_reads();
    auto* to = static_cast<std::byte*>(slots_) + (kLargest * static_cast<std::int64_t>(reads_.size())).count;
    order({0}, fetches_);
    allocator.record_use(item.allocation, fetches_);
    download(to, item.allocation.data, item.allocation.size, fetches_);
    reads_.emplace_back(item, to);
  }
  void check_reads() {
    driver_->synchronize_stream(fetches_);
    for (const auto& [item, bytes] : reads_) {
      const std::vector<std::uint32_t> expected = contents(item);
      ASSERT_EQ(std::memcmp(bytes, expected.data(), expected.size() * 4), 0) << "item " << item.number;
    }
    reads_.clear();
  }
  void free_one(CachingAllocator& allocator) {
    std::swap(live_[draw(static_cast<std::uint32_t>(live_.size()))], live_.back());
    read(allocator, live_.back());
    allocator.deallocate(live_.back().allocation);
    live_.pop_back();
  }
  Item& at(void* address) {
    return *std::find_if(live_.begin(), live_.end(), [&](const Item& item) { return item.allocation.data == address; });
  }
  std::optional<Bytes> compact(CachingAllocator& allocator, Bytes size, bool is_last_resort = false) {
    return allocator.compact(size, owners(), is_last_resort);
  }
  CachingAllocator::BlockOwners owners() {
    return {.may_move = [&](void* address) { return !at(address).stays; },
            .moved = [&](void* from, void* to) { at(from).allocation.data = to; }};
  }

  static constexpr Bytes kLargest = kMiB * 3;
  static constexpr std::size_t kSlots = 8;
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::mt19937 random_;
  StreamId sends_, fetches_;
  void* slots_ = nullptr;
  std::int64_t next_ = 1;
  std::vector<Item> live_;
  std::vector<std::pair<Item, const std::byte*>> reads_;
};

TEST_F(CompactionOnSim, EveryByteIsRight) {
  Bytes moved;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    open_for(seed);
    {
      CachingAllocator allocator(*driver_);
      const Bytes limit = kMiB * 24;
      allocator.begin_budget(limit);
      allocator.set_on_failure([&](Bytes missing) {
        const Bytes by_moving = compact(allocator, missing, draw(2) == 0).value_or(Bytes{});
        moved += by_moving;
        if (by_moving == Bytes{} && !live_.empty()) free_one(allocator);
        return true;
      });
      for (int step = 0; step < 120; ++step) {
        const std::uint32_t choice = draw(4);
        if (choice < 2 || live_.empty()) {
          const bool is_small = draw(3) == 0;
          make(allocator, is_small ? Bytes{4 * (1 + draw(1 << 16))} : kMiB + Bytes{4 * (1 + draw(1 << 19))});
        } else if (choice == 2) {
          read(allocator, live_[draw(static_cast<std::uint32_t>(live_.size()))]);
        } else {
          free_one(allocator);
        }
      }
      while (!live_.empty()) free_one(allocator);
      check_reads();
      allocator.deallocate(allocator.allocate(limit, {0}));
      EXPECT_EQ(allocator.stats().largest_free, limit);
      EXPECT_EQ(allocator.stats().driver_allocations, 1);
    }
    close();
  }
  EXPECT_GT(moved, kMiB * 48);
}

// One block slides over itself in pieces; each call that the compaction makes fails once.
TEST_F(CompactionOnSim, ACallThatFailsLosesNothing) {
  int failed = 0;
  for (std::int64_t n = 1; n < 100; ++n) {
    SCOPED_TRACE(n);
    open_for(2);
    {
      CachingAllocator allocator(*driver_);
      allocator.begin_budget(kMiB * 10);
      for (const Bytes size : {kKiB * 1025, kLargest, kKiB * 1500, kKiB * 2000}) make(allocator, size);
      for (Item& item : live_) item.stays = false;
      for (const std::size_t i : {std::size_t{2}, std::size_t{0}}) {
        allocator.deallocate(live_[i].allocation);
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      driver_->synchronize();
      read(allocator, live_[0]);
      faults_->fail_any(n);
      bool moved = false;
      try {
        moved = compact(allocator, kMiB * 5).has_value();
      } catch (const DeviceError&) {
        ++failed;
      }
      faults_->clear();
      if (moved) n = 100;
      for (const Item& item : live_) read(allocator, item);
      check_reads();
      ASSERT_TRUE(compact(allocator, kMiB * 5));
      make(allocator, kLargest);
      while (!live_.empty()) free_one(allocator);
      check_reads();
      allocator.deallocate(allocator.allocate(kMiB * 10, {0}));
    }
    close();
  }
  EXPECT_GE(failed, 6);
}

// Each call that it makes fails once, in any legal order of the device's work.
TEST_F(CompactionOnSim, SmallSegmentsRiseWithTheirBytes) {
  int failed = 0;
  Bytes raised;
  for (std::int64_t n = 1; n < 200 && raised == Bytes{}; ++n) {
    SCOPED_TRACE(n);
    open_for(static_cast<unsigned>(n));
    {
      CachingAllocator allocator(*driver_);
      allocator.begin_budget(kMiB * 24);
      std::vector<Allocation> above;
      for (int segment = 0; segment < 3; ++segment) {
        const Bytes top = kMiB * (24 - 5 * segment);
        auto* const arena = static_cast<std::byte*>(allocator.arena().data);
        above.push_back(allocator.allocate_at(arena + (top - kMiB * 3).count, kMiB * 3, {0}));
        for (int i = 0; i < 3; ++i) make(allocator, kKiB * 600);
      }
      for (Item& item : live_) item.stays = false;
      for (const Allocation& each : above) allocator.deallocate(each);
      driver_->synchronize();
      for (const std::size_t i : {0, 4, 8}) read(allocator, live_[i]);
      faults_->fail_any(n);
      try {
        raised = allocator.raise_small_segments(owners());
      } catch (const DeviceError&) {
        ++failed;
      }
      faults_->clear();
      for (const Item& item : live_) read(allocator, item);
      check_reads();
      allocator.raise_small_segments(owners());
      allocator.deallocate(allocator.allocate(kMiB * 16, {0}));
      while (!live_.empty()) free_one(allocator);
      check_reads();
      allocator.deallocate(allocator.allocate(kMiB * 24, {0}));
    }
    close();
  }
  EXPECT_EQ(raised, kMiB * 4) << "above the third are 1 MiB";
  EXPECT_GE(failed, 9);
}

}  // namespace
}  // namespace ferry
