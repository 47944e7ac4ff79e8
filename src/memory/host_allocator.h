// Memory of host tensors. Up to 32 KiB it comes from the thread-caching TBB allocator, without a lock; above that from
// blocks of the cpu driver's huge-page segments, which are kept, so that a page is touched for the first time once.
//
// Alignment: 64 bytes. Streams are ignored: host memory that was given back may be reused at once.
// In timing-only mode every block comes from the driver, whose memory has no contents, and nothing is touched.
// Under AddressSanitizer a use of memory that was given back is reported.
//
// Statistics: small blocks count as they were asked for, and as reserved while in use. Figures are exact when no other
// thread is allocating; peaks are taken at allocations above 32 KiB and when statistics are read.
//
// Thread-safety: all methods may be called from any thread, on memory of any thread.
// Ownership: the driver outlives the allocator; small blocks outlive it, large ones die with it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "src/memory/allocator.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/thread_counters.h"

namespace ferry {

struct HostAllocatorOptions {
  // Of memory above 32 KiB: reserved memory never exceeds it. Unset: the driver decides.
  std::optional<Bytes> limit{};
  // As CachingAllocatorOptions::on_failure.
  std::function<bool(Bytes)> on_failure{};
  // Asked before each allocation: true makes it fail as if the host had no memory left.
  std::function<bool(Bytes)> refuse{};
};

class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(Driver& driver, HostAllocatorOptions options = {});

  // Throws: OutOfMemory; InvalidArgument for a negative size.
  Allocation allocate(Bytes size, StreamId stream = {}) override;
  void deallocate(const Allocation& allocation) noexcept override;
  void empty_cache() override;
  AllocatorStats stats() const override;
  void reset_peaks() override;

 private:
  Allocation allocate_large(Bytes size);
  OutOfMemory shortage(Bytes size) const;

  Driver& driver_;
  const Bytes largest_small_;
  const std::function<bool(Bytes)> refuse_;
  memory::ThreadCounters small_;
  CachingAllocator large_;
  mutable std::atomic<std::int64_t> peak_allocated_{0}, peak_reserved_{0};
};

}  // namespace ferry
