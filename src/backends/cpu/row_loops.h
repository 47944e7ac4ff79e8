// Loops over dense rows of floats that gather and scatter kernels share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <ferry/dtype.h>

namespace ferry::cpu_backend {

struct RowLoops {
  // to = scale * (from[0] + from[1] + …) of `count` rows, added in that order; zero for none. 16-bit rows add in float.
  // `initial`: null, or a row that comes first in the sum and may be `to`.
  void (*sum)(std::int64_t width, std::byte* to, const std::byte* initial, const std::byte* const* from,
              std::int64_t count, double scale) = nullptr;
};

// Throws: InvalidArgument for other dtypes than floats.
const RowLoops& row_loops(DType dtype);

// Asks for a row's cache lines ahead of its use: tables are read at random. They go to the second level of the cache,
// since a core waits for more lines there at a time than in its first.
inline void prefetch_row(const std::byte* row, std::int64_t bytes) {
#if defined(__GNUC__)
  constexpr std::int64_t kLine = 64, kMost = 4096;
  // GCC takes a function that only prefetches for one without effects, and drops calls of it that it does not inline.
  asm volatile("" : : "r"(row));
  for (std::int64_t i = 0; i < bytes && i < kMost; i += kLine) __builtin_prefetch(row + i, 0, 2);
  // A row that starts within a line may end in one more. Asking for it always, twice at times, costs less than a branch
  // that depends on where the row lies.
  if (0 < bytes && bytes <= kMost) __builtin_prefetch(row + bytes - 1, 0, 2);
#else
  (void)row, (void)bytes;
#endif
}

// How many rows of that size to ask for ahead: about as much as memory can have under way for one core.
inline std::int64_t rows_ahead(std::int64_t bytes) {
  constexpr std::int64_t kBytesAhead = 6144;
  return std::clamp<std::int64_t>(kBytesAhead / std::max<std::int64_t>(1, bytes), 2, 64);
}

}  // namespace ferry::cpu_backend
