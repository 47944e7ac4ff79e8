#include "src/backends/sim/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include <ferry/error.h>
#include "src/backends/sim/pages.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#endif

namespace ferry::sim {
namespace {

constexpr std::int64_t kAlignment = 512;
constexpr std::int64_t kGuard = 4096;  // behind an allocation, where it ends at memory never used
constexpr int kFreedByte = 0xFF;

}  // namespace

Arena::Arena(Bytes capacity, bool accessible)
    : capacity_{capacity.count / kAlignment * kAlignment}, accessible_(accessible) {
  base_ = map_pages(capacity_.count, accessible);
  if (base_ == nullptr) {
    const int code = errno;
    throw DeviceError(fmt::format("cannot reserve {} of addresses for a simulated GPU: {}; give it a smaller capacity",
                                  to_string(capacity_), std::strerror(code)),
                      code);
  }
  forbidden_end_ = base_;
  insert_free(base_, capacity_.count);
}

Arena::~Arena() {
  allow_access(base_, capacity_.count);
  unmap_pages(base_, capacity_.count);
}

void* Arena::allocate(Bytes size) {
  if (size.count <= 0 || size > capacity_) return nullptr;
  const std::int64_t needed = round_up(size.count, kAlignment);
  const auto fit = free_by_size_.lower_bound({needed, nullptr});
  if (fit == free_by_size_.end()) return nullptr;
  const auto [available, begin] = *fit;
  erase_free(free_by_address_.find(begin));
  if (available > needed) insert_free(begin + needed, available - needed);
  blocks_.emplace(begin, Block{needed, size.count});
  allow_access(begin, size.count);
  forbid_access(begin + size.count, needed - size.count + std::min(available - needed, kGuard));
  return begin;
}

bool Arena::free(void* pointer) {
  const auto block = blocks_.find(static_cast<Address>(pointer));
  if (block == blocks_.end()) return false;
  Address begin = block->first;
  std::int64_t size = block->second.size;
  blocks_.erase(block);
  clear_contents(begin, size);

  auto next = free_by_address_.lower_bound(begin);
  if (next != free_by_address_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      size += previous->second;
      erase_free(previous);
    }
  }
  if (next != free_by_address_.end() && next->first == begin + size) {
    size += next->second;
    erase_free(next);
  }
  insert_free(begin, size);
  return true;
}

bool Arena::contains(const void* pointer) const { return pointer >= base_ && pointer < base_ + capacity_.count; }

bool Arena::allocated(const void* pointer, std::int64_t size) const {
  auto* const begin = static_cast<const std::byte*>(pointer);
  auto block = blocks_.upper_bound(const_cast<Address>(begin));
  if (block == blocks_.begin()) return false;
  --block;
  return begin + size <= block->first + block->second.asked;
}

void Arena::insert_free(Address begin, std::int64_t size) {
  free_by_address_.emplace(begin, size);
  free_by_size_.emplace(size, begin);
}

void Arena::erase_free(std::map<Address, std::int64_t>::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_by_address_.erase(range);
}

void Arena::clear_contents(Address begin, std::int64_t size) {
  if (!accessible_) return;
  allow_access(begin, size);
  discard(begin, size, kHugePage, kFreedByte);
  forbid_access(begin, size);
}

void Arena::allow_access(Address begin, std::int64_t size) {
  const std::int64_t forbidden = std::min(size, forbidden_end_ - begin);
  if (forbidden > 0) ASAN_UNPOISON_MEMORY_REGION(begin, static_cast<std::size_t>(forbidden));
}

void Arena::forbid_access(Address begin, std::int64_t size) {
  if (!accessible_ || size == 0) return;
  ASAN_POISON_MEMORY_REGION(begin, static_cast<std::size_t>(size));
  forbidden_end_ = std::max(forbidden_end_, begin + size);
}

}  // namespace ferry::sim
