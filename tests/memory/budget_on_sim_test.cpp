// Budgets on the simulated GPU: values stay right in any legal order of its work, and the ordering checker is quiet.

#include <gtest/gtest.h>

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
  Item send(CachingAllocator& allocator, int item, Bytes size) {
    std::fill_n(sent(item), kElements, static_cast<float>(item));
    const Item result{item, allocator.allocate(size, sends_)};
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

  static constexpr int kItems = 200;
  StreamId sends_, fetches_;
  float* host_ = nullptr;
  std::vector<int> evicted_;
};

TEST_F(SimProgram, ValuesAreRightAndTheCheckerIsQuiet) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    open_for(seed);
    std::mt19937 random(seed);
    {
      CachingAllocator allocator(*driver_);
      std::vector<Item> live;
      allocator.set_on_failure([&](Bytes missing) {
        const auto room = allocator.cheapest_room(missing, [&](void* address) {
          for (const Item& item : live) {
            if (item.allocation.data == address) return item.number + 1.;
          }
          return 1e9;
        });
        if (!room || room->empty()) return false;
        for (void* address : *room) {
          const auto found =
              std::find_if(live.begin(), live.end(), [&](const Item& item) { return item.allocation.data == address; });
          if (found == live.end()) return false;
          const Item item = *found;
          live.erase(found);
          order({0}, fetches_);
          allocator.record_use(item.allocation, fetches_);
          download(fetched(item.number), item.allocation.data, kContents, fetches_);
          evicted_.push_back(item.number);
          allocator.deallocate(item.allocation);
        }
        return true;
      });
      allocator.begin_budget(kMiB * 12);
      for (int i = 0; i < kItems; ++i) {
        const Bytes size = kKiB * (1 + random() % (random() % 2 == 0 ? 3000 : 900));
        live.push_back(send(allocator, i, size));
        if (random() % 3 == 0) {
          std::swap(live[random() % live.size()], live.back());
          const Item item = live.back();
          live.pop_back();
          finish(allocator, item);
        }
      }
      while (!live.empty()) {
        const Item item = live.back();
        live.pop_back();
        finish(allocator, item);
      }
      EXPECT_EQ(allocator.stats().driver_allocations, 1);
      driver_->synchronize();
    }
    EXPECT_GT(evicted_.size(), 20U);
    for (int i = 0; i < kItems; ++i) {
      const bool evicted = std::find(evicted_.begin(), evicted_.end(), i) != evicted_.end();
      for (int at : {0, static_cast<int>(kElements) - 1}) {
        ASSERT_EQ(fetched(i)[at], static_cast<float>(evicted ? i : i + 1)) << "seed " << seed << ", item " << i;
      }
    }
    evicted_.clear();
    close();
  }
}

}  // namespace
}  // namespace ferry
