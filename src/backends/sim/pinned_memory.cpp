#include "src/backends/sim/pinned_memory.h"

#include <unistd.h>

#include <cstring>
#include <iterator>

#include "src/backends/sim/pages.h"

namespace ferry::sim {

PinnedMemory::~PinnedMemory() {
  for (const auto& [pages, size] : blocks_) unmap_pages(pages, size.count);
}

void* PinnedMemory::allocate(Bytes size) {
  if (size.count <= 0) return nullptr;
  std::byte* const pages = map_pages(size.count, true);
  if (pages == nullptr) return nullptr;
  blocks_.emplace(pages, size);
  allocated_ += size;
  return pages;
}

bool PinnedMemory::free(void* pointer) {
  const auto block = blocks_.find(static_cast<std::byte*>(pointer));
  if (block == blocks_.end()) return false;
  allocated_ -= block->second;
  unmap_pages(block->first, block->second.count);
  blocks_.erase(block);
  return true;
}

void PinnedMemory::clear(void* destination, Bytes size) {
  auto* const begin = static_cast<std::byte*>(destination);
  const auto after = blocks_.upper_bound(begin);
  const bool ours = after != blocks_.begin() && begin < std::prev(after)->first + std::prev(after)->second.count;
  if (ours) {
    discard(begin, size.count, sysconf(_SC_PAGESIZE), 0);
  } else {
    std::memset(begin, 0, static_cast<std::size_t>(size.count));
  }
}

}  // namespace ferry::sim
