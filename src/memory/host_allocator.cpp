#include "src/memory/host_allocator.h"

#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/memory/shortage.h"

namespace ferry {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr Bytes kLargestSmall = kKiB * 32;

// AddressSanitizer sees uses after free only of its own heap, and overruns only of the exact size.
#if defined(__SANITIZE_ADDRESS__)
void* allocate_small(std::size_t size) {
  void* data = nullptr;
  return posix_memalign(&data, kAlignment, size) == 0 ? data : nullptr;
}
void free_small(void* data) { std::free(data); }
void return_unused_small() {}
#else
void* allocate_small(std::size_t size) { return scalable_aligned_malloc(size, kAlignment); }
void free_small(void* data) { scalable_aligned_free(data); }
void return_unused_small() {
  scalable_free(scalable_malloc(1));  // the command crashes in a process that never allocated (oneTBB 2021.8)
  scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
}
#endif

void raise(std::atomic<std::int64_t>& peak, Bytes to) {
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < to.count && !peak.compare_exchange_weak(seen, to.count, std::memory_order_relaxed)) {
  }
}

}  // namespace

HostAllocator::HostAllocator(Driver& driver, HostAllocatorOptions options)
    : driver_(driver),
      largest_small_(driver.info().computes_values ? kLargestSmall : Bytes{}),
      refuse_(std::move(options.refuse)),
      large_(driver, {.limit = options.limit,
                      .on_failure = std::move(options.on_failure),
                      .name = "host memory",
                      .free_memory = driver.info().computes_values ? FreeMemory::poisoned : FreeMemory::accessible}) {}

Allocation HostAllocator::allocate(Bytes size, StreamId /*stream*/) {
  FERRY_CHECK(size >= Bytes{}, InvalidArgument, "cannot allocate {} bytes", size.count);
  if (size == Bytes{}) return {};
  if (refuse_ && refuse_(size)) throw shortage(size);
  if (size > largest_small_) return allocate_large(size);
  void* data = allocate_small(static_cast<std::size_t>(size.count));
  if (data == nullptr) throw shortage(size);
  try {
    driver_.note_allocated(data, size, memory::kHostStream);
  } catch (...) {
    free_small(data);
    throw;
  }
  small_.count_allocation(size.count);
  return {data, size, nullptr};
}

Allocation HostAllocator::allocate_large(Bytes size) {
  const Allocation allocation = large_.allocate(size, memory::kHostStream);
  const auto [allocated, reserved] = large_.held();
  const Bytes small{small_.sum().bytes};
  raise(peak_allocated_, allocated + small);
  raise(peak_reserved_, reserved + small);
  return allocation;
}

void HostAllocator::deallocate(const Allocation& allocation) noexcept {
  if (allocation.block != nullptr) return large_.deallocate(allocation);
  if (allocation.data == nullptr) return;
  driver_.note_freed(allocation.data, allocation.size, memory::kHostStream);
  small_.count_deallocation(allocation.size.count);
  free_small(allocation.data);
}

void HostAllocator::empty_cache() {
  large_.empty_cache();
  return_unused_small();
}

AllocatorStats HostAllocator::stats() const {
  AllocatorStats result = large_.stats();
  const memory::AllocationCounts small = small_.sum();
  result.allocated.count += small.bytes;
  result.active.count += small.bytes;
  result.reserved.count += small.bytes;
  result.allocations += small.allocations;
  result.deallocations += small.deallocations;
  raise(peak_allocated_, std::max(result.allocated, result.peak_allocated));
  raise(peak_reserved_, std::max(result.reserved, result.peak_reserved));
  result.peak_allocated.count = peak_allocated_.load(std::memory_order_relaxed);
  result.peak_reserved.count = peak_reserved_.load(std::memory_order_relaxed);
  return result;
}

void HostAllocator::reset_peaks() {
  large_.reset_peaks();
  peak_allocated_ = 0;
  peak_reserved_ = 0;
}

OutOfMemory HostAllocator::shortage(Bytes size) const {
  const AllocatorStats now = stats();
  return memory::out_of_memory({.where = "host memory",
                                .requested = size,
                                .needed = size,
                                .allocated = now.allocated,
                                .active = now.active,
                                .reserved = now.reserved,
                                .largest_free = now.largest_free,
                                .limit = driver_.info().capacity,
                                .limit_is = "capacity"});
}

}  // namespace ferry
