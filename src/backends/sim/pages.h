// Memory straight from the operating system, for large ranges whose pages come and go.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::sim {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

// The first address at or after `pointer` that is a multiple of `step`.
std::byte* align_up(std::byte* pointer, std::int64_t step);

// Addresses of which pages are taken when touched, as huge pages where the system has them and `size` is one or more;
// aligned to 2 MiB. Not accessible: any access faults. Null, with errno set, when the system refuses.
std::byte* map_pages(std::int64_t size, bool accessible);
// `size` as for map_pages.
void unmap_pages(std::byte* pages, std::int64_t size);

// Gives the whole pages of `page` bytes within [begin, begin + size) back to the system, which reads as zeros from then
// on, and fills what is left at both ends with `value`. Requires: memory of map_pages, accessible.
void discard(std::byte* begin, std::int64_t size, std::int64_t page, int value);

}  // namespace ferry::sim
