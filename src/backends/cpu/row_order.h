// The rows of a sparse gradient in ascending order: what coalescing and scattering with duplicates work through.
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
  std::vector<std::int64_t> position;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> first;
};

RowOrder order_rows(const TensorView& indices);

// Rows of `width` elements that one task handles.
inline std::int64_t row_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, width));
}

// Calls body(s, rows) for each segment of `order`, rows being where its values lie, in input order. `prefetch(s)` is
// called some segments ahead of its use.
template <class Body, class Prefetch>
void for_each_segment(const RowOrder& order, const TensorView& values, const Body& body, const Prefetch& prefetch) {
  constexpr std::size_t kAhead = 4;
  const std::int64_t width = values.shape.back(), bytes = width * size_of(values.dtype);
  const auto value_row = [&](std::int64_t k) {
    return values.as<const std::byte>() + order.position[static_cast<std::size_t>(k)] * bytes;
  };
  const auto ask_for = [&](std::size_t s) {
    prefetch_row(value_row(order.first[s]), bytes);
    prefetch(s);
  };
  parallel_for(static_cast<std::int64_t>(order.rows.size()), row_grain(width),
               [&](std::int64_t first, std::int64_t last) {
                 const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(last);
                 std::vector<const std::byte*> rows;
                 for (std::size_t s = begin; s < std::min(begin + kAhead, end); ++s) ask_for(s);
                 for (std::size_t s = begin; s < end; ++s) {
                   if (s + kAhead < end) ask_for(s + kAhead);
                   rows.clear();
                   for (auto k = order.first[s]; k < order.first[s + 1]; ++k) rows.push_back(value_row(k));
                   body(s, std::span<const std::byte* const>(rows));
                 }
               });
}
template <class Body>
void for_each_segment(const RowOrder& order, const TensorView& values, const Body& body) {
  for_each_segment(order, values, body, [](std::size_t) {});
}

}  // namespace ferry::cpu_backend
