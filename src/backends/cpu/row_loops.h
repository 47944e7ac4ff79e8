// Loops over dense rows of floats that gather and scatter kernels share.
#pragma once

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

// Asks for a row's cache lines ahead of its use: tables are read at random.
inline void prefetch_row(const std::byte* row, std::int64_t bytes) {
#if defined(__GNUC__)
  constexpr std::int64_t kLine = 64, kMost = 4096;
  for (std::int64_t i = 0; i < bytes && i < kMost; i += kLine) __builtin_prefetch(row + i);
#else
  (void)row, (void)bytes;
#endif
}

}  // namespace ferry::cpu_backend
