// Budgets on the simulated GPU: values stay right in any legal order of its work, and the ordering checker is quiet.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/backends/sim/sim_driver.h"
#include "src/memory/caching_allocator.h"
#include "tests/sim/sim_fixture.h"

namespace ferry {
namespace {

constexpr std::int64_t kElements = 64;
constexpr Bytes kContents{kElements * 4};

// Sends values to the device on one stream, changes them on the compute stream and fetches them on a third, each
// ordered by events, while blocks change hands within a budget.
class SimProgram : public SimFixture {
 protected:
  void open_for(unsigned seed) {
    open({.order = {.adversarial = seed % 2 == 1, .seed = seed}, .checker = std::make_shared<OrderingChecker>()});
    random_.seed(seed);
    sends_ = driver_->create_stream("h2d");
    fetches_ = driver_->create_stream("d2h");
    host_ = static_cast<float*>(driver_->allocate_pinned(kContents * 2 * kItems));
  }
  void close() {
    driver_->free_pinned(host_, kContents * 2 * kItems);
    driver_.reset();
  }
  void order(StreamId earlier, StreamId later) {
    const EventId event = driver_->create_event();
    driver_->record_event(event, earlier);
    driver_->wait_event(later, event);
    driver_->destroy_event(event);
  }
  float* sent(int item) { return host_ + 2 * item * kElements; }
  float* fetched(int item) { return sent(item) + kElements; }

  struct Item {
    int number;
    Allocation allocation;
  };
  // Where the budget's copies go: as it comes, or early and with a wish.
  enum class Arrivals : std::uint8_t { anywhere, early };
  Allocation arrive(CachingAllocator& allocator, Bytes size) {
    if (arrivals_ == Arrivals::anywhere) return allocator.allocate(size, sends_);
    const CachingAllocator::Arena arena = allocator.arena();
    const auto unit = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(arena.size.count / 512));
    return allocator.allocate_early(static_cast<std::byte*>(arena.data) + 512 * unit, size, sends_);
  }
  Item send(CachingAllocator& allocator, int item, Bytes size) {
    std::fill_n(sent(item), kElements, static_cast<float>(item));
    const Item result{item, arrive(allocator, size)};
    allocator.record_use(result.allocation, {0});
    upload(result.allocation.data, sent(item), kContents, sends_);
    order(sends_, {0});
    return result;
  }
  // Adds one, by way of a temporary, fetches the result and gives the block back while the copy is under way.
  void finish(CachingAllocator& allocator, const Item& item) {
    const Allocation temporary = allocator.allocate(kKiB * 300, {0});
    increment(item.allocation.data, temporary.data, kElements, {0});
    driver_->copy(
        {item.allocation.data, temporary.data, kContents, CopyDirection::device_to_device, HostMemory::pinned, "keep"},
        {0});
    allocator.deallocate(temporary);
    order({0}, fetches_);
    allocator.record_use(item.allocation, fetches_);
    download(fetched(item.number), item.allocation.data, kContents, fetches_);
    allocator.deallocate(item.allocation);
  }

  // Makes room by fetching and giving back those that came first.
  bool evict(CachingAllocator& allocator, Bytes missing) {
    const auto at = [this](const void* address) {
      return std::ranges::find_if(live_, [&](const Item& item) { return item.allocation.data == address; });
    };
    const auto room = allocator.cheapest_room(missing, [&](void* address) {
      const auto found = at(address);
      return found == live_.end() ? 1e9 : found->number + 1.;
    });
    if (!room || room->empty()) return false;
    for (void* address : *room) {
      const auto found = at(address);
      if (found == live_.end()) return false;
      const Item item = *found;
      live_.erase(found);
      order({0}, fetches_);
      allocator.record_use(item.allocation, fetches_);
      download(fetched(item.number), item.allocation.data, kContents, fetches_);
      evicted_.push_back(item.number);
      allocator.deallocate(item.allocation);
    }
    return true;
  }
  void finish_any(CachingAllocator& allocator) {
    std::swap(live_[random_() % live_.size()], live_.back());
    const Item item = live_.back();
    live_.pop_back();
    finish(allocator, item);
  }
  void run(Arrivals arrivals) {
    arrivals_ = arrivals;
    CachingAllocator allocator(*driver_);
    allocator.set_on_failure([&](Bytes missing) { return evict(allocator, missing); });
    allocator.begin_budget(kMiB * 12);
    for (int i = 0; i < kItems; ++i) {
      const std::uint64_t most = random_() % 2 == 0 ? 3000 : 900;
      live_.push_back(send(allocator, i, kKiB * static_cast<std::int64_t>(1 + random_() % most)));
      if (random_() % 3 == 0) finish_any(allocator);
    }
    while (!live_.empty()) finish_any(allocator);
    EXPECT_EQ(allocator.stats().driver_allocations, 1);
    driver_->synchronize();
  }

  static constexpr int kItems = 200;
  StreamId sends_, fetches_;
  float* host_ = nullptr;
  std::mt19937 random_;
  Arrivals arrivals_ = Arrivals::anywhere;
  std::vector<Item> live_;
  std::vector<int> evicted_;
};

TEST_F(SimProgram, ValuesAreRightAndTheCheckerIsQuiet) {
  for (const Arrivals arrivals : {Arrivals::anywhere, Arrivals::early}) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (arrivals == Arrivals::early ? ", early" : ""));
      open_for(seed);
      run(arrivals);
      EXPECT_GT(evicted_.size(), 20U);
      for (int i = 0; i < kItems; ++i) {
        const bool evicted = std::ranges::find(evicted_, i) != evicted_.end();
        for (const std::int64_t at : {std::int64_t{0}, kElements - 1}) {
          ASSERT_EQ(fetched(i)[at], static_cast<float>(evicted ? i : i + 1)) << "item " << i;
        }
      }
      evicted_.clear();
      close();
    }
  }
}

// The copy stream's time is that of its copy, not that of work that the device was given before it.
TEST_F(SimProgram, AnEarlyCopyEndsBeforeWorkThatWasGivenFirst) {
  open_for(0);
  {
    CachingAllocator allocator(*driver_);
    allocator.begin_budget(kMiB * 32);
    auto* const arena = static_cast<std::byte*>(allocator.arena().data);
    const Allocation a = allocator.allocate_at(arena, kMiB * 8, {0});
    const Allocation b = allocator.allocate_at(arena + (kMiB * 8).count, kMiB * 8, {0});
    const Allocation rest = allocator.allocate_at(arena + (kMiB * 16).count, kMiB * 16, {0});
    allocator.deallocate(a);
    EXPECT_FALSE(allocator.try_allocate_at(rest.data, kMiB * 8, {0})) << "marks";
    launch({0}, std::chrono::milliseconds(50), 1);
    allocator.deallocate(b);
    const Allocation early = allocator.allocate_early(b.data, kMiB * 8, sends_);
    EXPECT_EQ(early.data, a.data);
    upload(early.data, host_, kContents, sends_, HostMemory::pinned, 2);
    const Allocation late = allocator.allocate_at(b.data, kMiB * 8, sends_);
    upload(late.data, host_, kContents, sends_, HostMemory::pinned, 3);
    driver_->synchronize();
    driver_->flush_work_records();
    const auto record = [this](std::uint64_t correlation) {
      return *std::ranges::find(observer_.records, correlation, &trace::WorkRecord::correlation);
    };
    ASSERT_EQ(observer_.records.size(), 3U);
    EXPECT_LT(record(2).end, record(1).end);
    EXPECT_GE(record(3).begin, record(1).end);
    for (const Allocation& each : {early, late, rest}) allocator.deallocate(each);
  }
  close();
}

}  // namespace
}  // namespace ferry
