// What every allocator of ferry does, and the figures each keeps.
#pragma once

#include <functional>

#include <ferry/units.h>
#include "src/device/driver.h"

namespace ferry {

// A block handed out. A value: freeing it twice is the caller's error.
struct Allocation {
  void* data = nullptr;
  Bytes size;             // as asked for
  void* block = nullptr;  // the allocator's own

  explicit operator bool() const { return data != nullptr; }
};

struct AllocatorStats {
  Bytes allocated;  // asked for by live allocations
  Bytes active;     // allocated, rounded up, and blocks that wait for another stream's event
  Bytes reserved;   // taken from the driver
  Bytes limit;      // that reserved never exceeds: a budget's, or the allocator's own; 0: none
  Bytes peak_allocated, peak_reserved;
  Bytes largest_free;                               // largest cached block
  std::int64_t allocations = 0, deallocations = 0;  // since the start
  std::int64_t segments = 0;                        // held now
  std::int64_t driver_allocations = 0;              // calls to the driver since the start

  // 1 - largest free / all free cached bytes; 0 when nothing is cached.
  double fragmentation() const {
    const double free_bytes = static_cast<double>((reserved - active).count);
    return free_bytes <= 0 ? 0 : 1 - static_cast<double>(largest_free.count) / free_bytes;
  }
};

// Thread-safety: all methods may be called from any thread.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // A block for work on `stream` (ignored for host memory). Size 0 gives a null block of size 0.
  // Throws: OutOfMemory.
  virtual Allocation allocate(Bytes size, StreamId stream) = 0;
  // Stream order: work enqueued on the block's stream so far may still use it; the next user of that stream may have
  // it at once, another stream only after that work.
  virtual void deallocate(const Allocation& allocation) noexcept = 0;
  // Work on `stream`, which is not the block's own, uses the block: it is not reused before that work has passed.
  virtual void record_use(const Allocation& /*allocation*/, StreamId /*stream*/) {}
  // Returns cached memory that nothing uses.
  virtual void empty_cache() = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peaks() = 0;
};

}  // namespace ferry
