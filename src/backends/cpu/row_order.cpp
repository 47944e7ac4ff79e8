#include "src/backends/cpu/row_order.h"

#include <hwy/contrib/sort/vqsort.h>

#include "src/backends/cpu/index_check.h"

namespace ferry::cpu_backend {

RowOrder order_rows(const TensorView& indices) {
  const std::int64_t count = indices.numel();
  // Keys of row and position are distinct, so that any sort gives the one order.
  std::vector<hwy::uint128_t> keys;
  keys.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = index_at(indices, i);
    if (row >= 0) keys.push_back({static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(row)});
  }
  hwy::Sorter()(keys.data(), keys.size(), hwy::SortAscending());
  RowOrder order;
  order.position.reserve(keys.size());
  order.rows.reserve(keys.size());
  order.first.reserve(keys.size() + 1);
  for (const auto& key : keys) {
    const auto row = static_cast<std::int64_t>(key.hi);
    if (order.rows.empty() || order.rows.back() != row) {
      order.rows.push_back(row);
      order.first.push_back(static_cast<std::int64_t>(order.position.size()));
    }
    order.position.push_back(static_cast<std::int64_t>(key.lo));
  }
  order.first.push_back(static_cast<std::int64_t>(order.position.size()));
  return order;
}

}  // namespace ferry::cpu_backend
