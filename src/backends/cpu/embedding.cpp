#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/row_loops.h"
#include "src/backends/cpu/row_order.h"
#include "src/backends/cpu/strided.h"
#include "src/backends/cpu/view_ops.h"
#include "src/base/check.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

// A dense table of rows.
struct Rows {
  explicit Rows(const TensorView& view)
      : data(view.as<std::byte>()), width(view.shape.back()), bytes(width * size_of(view.dtype)) {}
  std::byte* operator[](std::int64_t row) const { return data + row * bytes; }

  std::byte* data;
  std::int64_t width, bytes;
};

// Bags as half-open ranges of ids.
std::int64_t bag_begin(const TensorView& offsets, std::int64_t bag) { return index_at(offsets, bag); }
std::int64_t bag_end(const TensorView& offsets, std::int64_t bag, std::int64_t ids) {
  return bag + 1 < offsets.numel() ? index_at(offsets, bag + 1) : ids;
}

void check_offsets(const KernelContext& context, const TensorView& offsets, std::int64_t ids) {
  const std::int64_t bags = offsets.numel();
  FERRY_CHECK(bags > 0 || ids == 0, InvalidArgument, "{}: {} ids but no bag: offsets is empty", context.op, ids);
  FERRY_CHECK(bags == 0 || index_at(offsets, 0) == 0, InvalidArgument, "{}: offsets[0] = {} must be 0", context.op,
              index_at(offsets, 0));
  for (std::int64_t bag = 0; bag < bags; ++bag) {
    const std::int64_t begin = bag_begin(offsets, bag), end = bag_end(offsets, bag, ids);
    FERRY_CHECK(begin <= end && end <= ids, InvalidArgument,
                "{}: offsets[{}] = {} and the end {} of its bag must not decrease nor pass the {} ids", context.op, bag,
                begin, end, ids);
  }
}

double bag_scale(const KernelContext& context, std::int64_t length) {
  const bool mean = context.attributes.as<ops::EmbeddingAttributes>().mean;
  return mean && length > 0 ? 1.0 / static_cast<double>(length) : 1.0;
}

}  // namespace

void embedding(const KernelContext& context) {
  const TensorView &table_view = context.in(0), &ids = context.in(1);
  check_indices(context,
                {.name = "ids", .view = ids, .bound = table_view.shape[0], .into = "table", .shape = table_view.shape});
  const Rows table(table_view), y(context.out());
  const std::int64_t count = ids.numel(), ahead = rows_ahead(table.bytes);
  parallel_ranges(count, row_grain(y.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < std::min(begin + ahead, end); ++i)
      prefetch_row(table[index_at(ids, i)], table.bytes);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + ahead < end) prefetch_row(table[index_at(ids, i + ahead)], table.bytes);
      std::memcpy(y[i], table[index_at(ids, i)], static_cast<std::size_t>(y.bytes));
    }
  });
}

void embedding_dense_backward(const KernelContext& context) {
  const TensorView &dy_view = context.in(0), &ids = context.in(1), &dtable_view = context.out();
  check_indices(
      context,
      {.name = "ids", .view = ids, .bound = dtable_view.shape[0], .into = "table", .shape = dtable_view.shape});
  const RowLoops& loops = row_loops(dy_view.dtype);
  fill_view(dtable_view, 0);
  const Rows dtable(dtable_view);
  const RowOrder order = group_rows(ids);
  for_each_segment(order, dy_view, [&](std::size_t s, std::span<const std::byte* const> from) {
    loops.sum(dtable.width, dtable[order.rows[s]], nullptr, from.data(), static_cast<std::int64_t>(from.size()), 1);
  });
}

void embedding_bag(const KernelContext& context) {
  const TensorView &table_view = context.in(0), &ids = context.in(1), &offsets = context.in(2);
  check_indices(context,
                {.name = "ids", .view = ids, .bound = table_view.shape[0], .into = "table", .shape = table_view.shape});
  check_offsets(context, offsets, ids.numel());
  const RowLoops& loops = row_loops(table_view.dtype);
  const Rows table(table_view), y(context.out());
  const std::int64_t bags = offsets.numel(), count = ids.numel();
  const std::int64_t per_bag = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, bags));
  parallel_for(bags, row_grain(y.width * per_bag), [&](std::int64_t begin, std::int64_t end) {
    std::vector<const std::byte*> sources;
    for (std::int64_t bag = begin; bag < end; ++bag) {
      const std::int64_t first = bag_begin(offsets, bag), last = bag_end(offsets, bag, count);
      sources.clear();
      for (std::int64_t i = first; i < last; ++i) {
        sources.push_back(table[index_at(ids, i)]);
        prefetch_row(sources.back(), table.bytes);
      }
      loops.sum(y.width, y[bag], nullptr, sources.data(), last - first, bag_scale(context, last - first));
    }
  });
}

void embedding_bag_backward(const KernelContext& context) {
  const TensorView &dy_view = context.in(0), &offsets = context.in(1);
  const Rows dy(dy_view), values(context.out());
  const std::int64_t count = context.out().shape[0];
  check_offsets(context, offsets, count);
  const RowLoops& loops = row_loops(dy_view.dtype);
  parallel_for(offsets.numel(), row_grain(dy.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bag = begin; bag < end; ++bag) {
      const std::int64_t first = bag_begin(offsets, bag), last = bag_end(offsets, bag, count);
      const std::byte* const source = dy[bag];
      for (std::int64_t i = first; i < last; ++i) {
        loops.sum(dy.width, values[i], nullptr, &source, 1, bag_scale(context, last - first));
      }
    }
  });
}

}  // namespace ferry::cpu_backend
