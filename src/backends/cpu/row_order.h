// The rows of a sparse gradient in ascending order: what coalescing and scattering with duplicates work through.
#pragma once

#include <vector>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Places [first[s], first[s + 1]) of `position` are the positions at which rows[s] occurs, ascending. Negative rows are
// left out. Depends on the indices alone; takes O(n log n) whatever the rows' range.
struct RowOrder {
  std::vector<std::int64_t> position;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> first;
};

RowOrder order_rows(const TensorView& indices);

}  // namespace ferry::cpu_backend
