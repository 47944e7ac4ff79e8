#include "src/backends/sim/pages.h"

#include <sys/mman.h>

#include <cstring>

namespace ferry::sim {

std::byte* align_up(std::byte* pointer, std::int64_t step) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
  return pointer + (round_up(address, step) - address);
}

std::byte* map_pages(std::int64_t size, bool accessible) {
  const std::int64_t whole = round_up(size, kHugePage);
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const mapped = mmap(nullptr, static_cast<std::size_t>(whole + kHugePage), protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  std::byte* const aligned = align_up(begin, kHugePage);
  if (aligned != begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
  munmap(aligned + whole, static_cast<std::size_t>(kHugePage - (aligned - begin)));
  // First touch of small pages is slow. Less than a huge page is not worth the clearing of one.
  if (accessible && size >= kHugePage) madvise(aligned, static_cast<std::size_t>(whole), MADV_HUGEPAGE);
  return aligned;
}

void unmap_pages(std::byte* pages, std::int64_t size) {
  munmap(pages, static_cast<std::size_t>(round_up(size, kHugePage)));
}

void discard(std::byte* begin, std::int64_t size, std::int64_t page, int value) {
  std::byte* const end = begin + size;
  std::byte* const inner = align_up(begin, page);
  const std::int64_t whole = inner < end ? (end - inner) / page * page : 0;
  if (whole == 0) {
    std::memset(begin, value, static_cast<std::size_t>(size));
    return;
  }
  std::memset(begin, value, static_cast<std::size_t>(inner - begin));
  madvise(inner, static_cast<std::size_t>(whole), MADV_DONTNEED);
  std::memset(inner + whole, value, static_cast<std::size_t>(end - inner - whole));
}

}  // namespace ferry::sim
