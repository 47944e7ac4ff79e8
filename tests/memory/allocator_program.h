// Random programs of allocations, uses and frees on several streams of a FakeDriver, with what must hold after each
// step.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "tests/memory/fake_driver.h"

namespace ferry::testing {

class AllocatorProgram {
 public:
  AllocatorProgram(CachingAllocator& allocator, FakeDriver& driver, std::vector<StreamId> streams, unsigned seed)
      : allocator_(allocator),
        driver_(driver),
        streams_(std::move(streams)),
        random_(seed),
        moves_(driver.moves.size()) {}

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }

  // One random step. Driver failures and missing memory are counted; every second small size is below 64 KiB.
  void step(Bytes largest) {
    const StreamId stream = streams_[draw(static_cast<std::uint32_t>(streams_.size()))];
    const std::uint32_t choice = draw(10);
    if (choice < 2) driver_.advance(stream);
    try {
      if (choice < 4) {
        const std::int64_t most = draw(3) == 0 ? (draw(2) == 0 ? kMiB : kKiB * 64).count : largest.count;
        allocate(Bytes{1 + static_cast<std::int64_t>(draw(static_cast<std::uint32_t>(most)))}, stream);
      } else if (live_.empty()) {
        return;
      } else if (choice < 7) {
        const Allocation& chosen = live_[draw(static_cast<std::uint32_t>(live_.size()))];
        use_on(chosen, stream);
        if (draw(3) == 0) allocator_.close_use(chosen, stream);
      } else {
        free_one(draw(static_cast<std::uint32_t>(live_.size())));
      }
    } catch (const OutOfMemory&) {
      ++shortages;
    } catch (const DeviceError&) {
      ++device_errors;
    }
  }

  // Throws: as CachingAllocator::allocate.
  void allocate(Bytes size, StreamId stream) { take(allocator_.allocate(size, stream), stream); }
  // Whether it lies there. Missing memory is counted.
  bool allocate_at(void* address, Bytes size, StreamId stream) {
    try {
      take(allocator_.allocate_at(address, size, stream), stream);
    } catch (const OutOfMemory&) {
      ++shortages;
      return false;
    }
    return live_.back().data == address;
  }
  // The same, where the compute stream is done first. Driver failures and missing memory are counted.
  bool allocate_early(void* address, Bytes size, StreamId stream) {
    try {
      take(allocator_.allocate_early(address, size, stream), stream);
      return live_.back().data == address;
    } catch (const OutOfMemory&) {
      ++shortages;
    } catch (const DeviceError&) {
      ++device_errors;
    }
    return false;
  }
  // Compacts for `size` bytes, where about three of four blocks may move, and then takes them. Driver failures are
  // counted. Returns the bytes moved.
  Bytes compact(Bytes size, bool is_last_resort = false) {
    const auto may_move = chosen_blocks();
    try {
      const auto moved =
          allocator_.compact(size,
                             {.may_move = may_move,
                              .moved = [&](void* from, void* to) { note_move(from, to, to < from && may_move(from)); }},
                             is_last_resort);
      if (!moved) return {};
      allocate(size, streams_.front());
      return *moved;
    } catch (const OutOfMemory&) {
      problem_ = "there was no room after a compaction";
    } catch (const DeviceError&) {
      ++device_errors;
    }
    return {};
  }
  // Raises small segments of which about three of four blocks may move. Driver failures are counted.
  Bytes raise_small_segments() {
    const auto may_move = chosen_blocks();
    try {
      return allocator_.raise_small_segments({.may_move = may_move, .moved = [&](void* from, void* to) {
                                                note_move(from, to, to > from && may_move(from));
                                              }});
    } catch (const DeviceError&) {
      ++device_errors;
    }
    return {};
  }
  void use_on(const Allocation& allocation, StreamId stream) {
    allocator_.record_use(allocation, stream);
    use(allocation, stream);
  }
  // The compute stream comes after what `stream` did with the block so far, and the allocator knows.
  void end_use(const Allocation& allocation, StreamId stream) {
    const EventId event = driver_.create_event();
    driver_.record_event(event, stream);
    driver_.wait_event(streams_.front(), event);
    driver_.destroy_event(event);
    allocator_.end_use(allocation, stream);
  }
  void free_at(void* address) {
    const auto found =
        std::find_if(live_.begin(), live_.end(), [&](const Allocation& each) { return each.data == address; });
    if (found == live_.end()) {
      problem_ = "an address was named that no live allocation has";
    } else {
      free_one(static_cast<std::size_t>(found - live_.begin()));
    }
  }
  void free_all() {
    while (!live_.empty()) free_one(live_.size() - 1);
  }
  const std::vector<Allocation>& live() const { return live_; }

  // What is wrong; empty when nothing is. Quadratic, and independent of how the allocator works.
  std::string fault() const {
    if (!problem_.empty()) return problem_;
    const AllocatorStats stats = allocator_.stats();
    Bytes allocated;
    for (std::size_t i = 0; i < live_.size(); ++i) {
      allocated += live_[i].size;
      if (!inside_a_segment(live_[i])) return "an allocation is in no segment";
      for (std::size_t j = 0; j < i; ++j) {
        if (overlap(live_[i], live_[j])) return "two live allocations overlap";
      }
    }
    if (stats.allocated != allocated) return "allocated differs from a recount";
    if (stats.reserved != driver_.reserved()) return "reserved differs from the driver's";
    if (stats.limit != Bytes{} && stats.reserved > stats.limit) return "more than the limit is reserved";
    if (stats.segments != static_cast<std::int64_t>(driver_.device.size())) return "the number of segments is wrong";
    if (stats.active < allocated || stats.active > stats.reserved) return "active is out of bounds";
    if (stats.peak_allocated < stats.allocated || stats.peak_reserved < stats.reserved) return "a peak is too low";
    if (stats.largest_free > stats.reserved - stats.active) return "the largest free block is larger than what is free";
    if (stats.allocations - stats.deallocations != static_cast<std::int64_t>(live_.size())) return "counts are wrong";
    return "";
  }

  int shortages = 0, device_errors = 0;

 private:
  struct Use {
    const std::byte* data;
    Bytes size;
    FakeDriver::Work work;
  };

  void take(const Allocation& allocation, StreamId stream) {
    note_race(allocation, stream);
    use(allocation, stream);
    live_.push_back(allocation);
  }
  std::function<bool(void*)> chosen_blocks() {
    return [this, chosen = draw(1 << 16)](void* address) {
      const auto found =
          std::find_if(live_.begin(), live_.end(), [&](const Allocation& each) { return each.data == address; });
      return ((static_cast<std::uint32_t>(found - live_.begin()) * 2654435761U >> 7) ^ chosen) % 4 != 0;
    };
  }
  static bool overlap(const Allocation& a, const Allocation& b) {
    const auto* a_begin = static_cast<const std::byte*>(a.data);
    const auto* b_begin = static_cast<const std::byte*>(b.data);
    return a_begin < b_begin + b.size.count && b_begin < a_begin + a.size.count;
  }
  bool inside_a_segment(const Allocation& allocation) const {
    const auto* data = static_cast<const std::byte*>(allocation.data);
    return std::any_of(driver_.device.begin(), driver_.device.end(), [&](const auto& segment) {
      const auto* begin = static_cast<const std::byte*>(segment.first);
      return data >= begin && data + allocation.size.count <= begin + segment.second.count;
    });
  }
  void use(const Allocation& allocation, StreamId stream) {
    uses_.push_back({static_cast<const std::byte*>(allocation.data), allocation.size, driver_.enqueue(stream)});
  }
  // Earlier uses of both places come before the copy, which is a use of both.
  void note_move(void* from, void* to, bool allowed) {
    const auto found =
        std::find_if(live_.begin(), live_.end(), [&](const Allocation& each) { return each.data == from; });
    if (found == live_.end() || !allowed) {
      problem_ = "a block was moved that is not there, had to stay or went the wrong way";
      return;
    }
    const Allocation before = *found;
    found->data = to;
    for (const Allocation& place : {before, *found}) note_race(place, streams_.front());
    for (const Allocation& place : {before, *found}) use(place, streams_.front());
  }
  void free_one(std::size_t index) {
    std::swap(live_[index], live_.back());
    allocator_.deallocate(live_.back());
    live_.pop_back();
  }
  // What compactions copied, or tried to, is used in both places.
  void add_moves() {
    for (; moves_ < driver_.moves.size(); ++moves_) {
      const FakeDriver::Move& move = driver_.moves[moves_];
      for (const std::byte* data : {move.from, move.to}) uses_.push_back({data, move.size, move.work});
    }
  }
  // Earlier uses of the memory must come before later work on `stream`. Those that the allocation covers are then
  // before its own first use, and no longer looked at.
  void note_race(const Allocation& allocation, StreamId stream) {
    const auto* begin = static_cast<const std::byte*>(allocation.data);
    const auto* end = begin + allocation.size.count;
    add_moves();
    for (const Use& use : uses_) {
      if (begin < use.data + use.size.count && use.data < end && !driver_.ordered(use.work, stream)) {
        problem_ = "a block was handed out for stream " + std::to_string(stream.value) + " beside work " +
                   std::to_string(use.work.number) + " of stream " + std::to_string(use.work.stream.value);
      }
    }
    std::erase_if(uses_, [&](const Use& use) { return use.data >= begin && use.data + use.size.count <= end; });
  }

  CachingAllocator& allocator_;
  FakeDriver& driver_;
  std::vector<StreamId> streams_;
  std::mt19937 random_;
  std::vector<Allocation> live_;
  std::vector<Use> uses_;
  std::size_t moves_;  // of the driver's that uses_ has
  std::string problem_;
};

}  // namespace ferry::testing
