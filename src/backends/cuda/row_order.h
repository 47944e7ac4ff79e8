// Rows of a sparse gradient in ascending order, positions of equal rows in input order: what adding duplicates in a
// fixed order works through.
#pragma once

#include <cstdint>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/launch_scope.h"

namespace ferry::cuda_backend {

// Arrays of n in scratch memory.
struct RowOrder {
  std::int64_t count = 0;
  std::int64_t* row = nullptr;       // ascending; rows out of range come first, as -1
  std::int64_t* position = nullptr;  // where it was named

  // Whether place k is the first of a row that is to be added to.
  FERRY_FUNCTOR bool begins(std::int64_t k) const { return row[k] >= 0 && (k == 0 || row[k - 1] != row[k]); }
};

// Rows in [0, bound) are kept, -1 is skipped; `sink` is told of others.
RowOrder order_rows(const Indices& rows, std::int64_t count, std::int64_t bound, std::int64_t lowest,
                    const FaultSink& sink);

// into[k] = how many places before k begin a row. Arrays of order.count.
void count_beginnings(const RowOrder& order, std::int64_t* into);

}  // namespace ferry::cuda_backend
