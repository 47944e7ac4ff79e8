#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/row_loops.h"
#include "src/backends/cpu/row_order.h"

namespace ferry::cpu_backend {
namespace {

// The distinct rows, then -1 up to `count`.
template <class Index>
void write_rows(const RowOrder& order, Index* out, std::int64_t count) {
  Index* const end = std::transform(order.rows.begin(), order.rows.end(), out,
                                    [](std::int64_t row) { return static_cast<Index>(row); });
  std::fill(end, out + count, Index{-1});
}

}  // namespace

void coalesce(const KernelContext& context) {
  const TensorView &indices = context.in(0), &values = context.in(1), &rows = context.out(0), &sums = context.out(1);
  const RowLoops& loops = row_loops(values.dtype);
  const RowOrder order = order_rows(indices);
  const std::int64_t count = indices.numel(), used = static_cast<std::int64_t>(order.rows.size());
  const std::int64_t width = values.shape.back(), bytes = width * size_of(values.dtype);
  if (rows.dtype == DType::i64) {
    write_rows(order, rows.as<std::int64_t>(), count);
  } else {
    write_rows(order, rows.as<std::int32_t>(), count);
  }
  for_each_segment(order, values, [&](std::size_t s, std::span<const std::byte* const> from) {
    std::byte* const to = sums.as<std::byte>() + static_cast<std::int64_t>(s) * bytes;
    if (from.size() == 1) {
      std::memcpy(to, from[0], static_cast<std::size_t>(bytes));
    } else {
      loops.sum(width, to, nullptr, from.data(), static_cast<std::int64_t>(from.size()), 1);
    }
  });
  if (used < count)
    std::memset(sums.as<std::byte>() + used * bytes, 0, static_cast<std::size_t>((count - used) * bytes));
}

void scatter_add_rows_(const KernelContext& context) {
  const TensorView &indices = context.in(1), &values = context.in(2), &dense = context.out();
  check_indices(
      context,
      {.name = "rows", .view = indices, .bound = dense.shape[0], .into = "dense", .shape = dense.shape, .lowest = -1});
  const RowLoops& loops = row_loops(values.dtype);
  const std::int64_t width = values.shape.back(), bytes = width * size_of(values.dtype);
  const RowOrder order = group_rows(indices);
  for_each_segment(order, values, [&](std::size_t s, std::span<const std::byte* const> from) {
    std::byte* const to = dense.as<std::byte>() + order.rows[s] * bytes;
    loops.sum(width, to, to, from.data(), static_cast<std::int64_t>(from.size()), 1);
  });
}

}  // namespace ferry::cpu_backend
