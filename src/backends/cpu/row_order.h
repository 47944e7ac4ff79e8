// The rows of a sparse gradient, each with all that is to be added to it: what coalescing and scattering with
// duplicates work through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/backends/cpu/parallel.h"
#include "src/backends/cpu/row_loops.h"
#include "src/backends/cpu/strided.h"
#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Places [first[s], first[s + 1]) of `position` are the positions at which rows[s] occurs, ascending. Negative rows are
// left out. Depends on the indices alone; takes O(n log n) whatever the rows' range.
struct RowOrder {
  RowOrder();
  ~RowOrder();
  RowOrder(RowOrder&&) = default;
  RowOrder& operator=(RowOrder&&) = default;

  std::vector<std::int64_t> position;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> first;
};

// With rows ascending.
RowOrder order_rows(const TensorView& indices);

// With few indices, rows in the order in which they first occur: for_each_segment then cuts them for threads as loops
// over the positions are cut, and a thread finds what it has read or written of them in its own cache. With many, whose
// rows no cache holds, as order_rows.
RowOrder group_rows(const TensorView& indices);

// Rows of `width` elements that one task handles.
inline std::int64_t row_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, width));
}

// Calls body(begin, end) for ranges of segments that cover all of `order`, for threads to share: cut by places, so that
// a task adds as many values whether they are of one row or of many.
template <class Body>
void for_each_segment_range(const RowOrder& order, std::int64_t width, const Body& body) {
  // The first segment that starts at this place or after it.
  const auto segment_at = [&](std::int64_t place) {
    return static_cast<std::size_t>(std::ranges::lower_bound(order.first, place) - order.first.begin());
  };
  parallel_ranges(static_cast<std::int64_t>(order.position.size()), row_grain(width),
                  [&](std::int64_t first, std::int64_t last) { body(segment_at(first), segment_at(last)); });
}

// Calls body(s, rows) for each segment of `order`, rows being where its values lie, in input order.
template <class Body>
void for_each_segment(const RowOrder& order, const TensorView& values, const Body& body) {
  const std::int64_t width = values.shape.back(), bytes = width * size_of(values.dtype);
  const auto ahead = static_cast<std::size_t>(rows_ahead(bytes));
  const auto value_row = [&](std::int64_t k) {
    return values.as<const std::byte>() + order.position[static_cast<std::size_t>(k)] * bytes;
  };
  for_each_segment_range(order, width, [&](std::size_t begin, std::size_t end) {
    std::vector<const std::byte*> rows;
    for (std::size_t s = begin; s < std::min(begin + ahead, end); ++s) prefetch_row(value_row(order.first[s]), bytes);
    for (std::size_t s = begin; s < end; ++s) {
      if (s + ahead < end) prefetch_row(value_row(order.first[s + ahead]), bytes);
      rows.clear();
      for (auto k = order.first[s]; k < order.first[s + 1]; ++k) rows.push_back(value_row(k));
      body(s, std::span<const std::byte* const>(rows));
    }
  });
}

}  // namespace ferry::cpu_backend
