// gather and index_select, which is a gather by one index for all rows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/indexing.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/row_loops.h"
#include "src/backends/cpu/rows.h"
#include "src/backends/cpu/strided.h"
#include "src/backends/cpu/view_ops.h"
#include "src/kernels/functor.h"
#include "src/ops/indexing.h"

namespace ferry::cpu_backend {
namespace {

// Sums of one task, kept in the second-level cache.
constexpr std::int64_t kScratch = 32768;
// From this many elements a row on, sorting the rows and adding them whole beats adding element by element.
constexpr std::int64_t kWholeRow = 8;

int axis_of(const KernelContext& context) { return context.attributes.as<ops::GatherAttributes>().axis; }

// Requires: `indices` dense. `x` is what they index along `axis`, for the message.
void check_axis_indices(const KernelContext& context, std::string_view name, const TensorView& indices, const Shape& x,
                        int axis) {
  const std::string into = fmt::format("axis {} of", axis);
  check_indices(context, {.name = name, .view = indices, .bound = x[axis], .into = into, .shape = x});
}

// indices [n] seen as an index of `shape`, the same for all rows along `axis`.
TensorView repeated(const TensorView& indices, const Shape& shape, int axis) {
  TensorView index = indices;
  index.shape = shape;
  index.strides = Dims::filled(shape.rank(), 0);
  index.strides[axis] = 1;
  return index;
}

// --- forward ---

// Strides in bytes, but of the index in elements; `step` is the distance of x's elements along the gathered axis.
template <class Word, class Index>
void gather_row(std::int64_t n, std::byte* y, const std::byte* x, const Index* index, std::int64_t y_stride,
                std::int64_t x_stride, std::int64_t index_stride, std::int64_t step) {
  constexpr std::int64_t kSize = sizeof(Word);
  if (index_stride == 0 && y_stride == kSize && x_stride == kSize) {
    std::memcpy(y, x + *index * step, static_cast<std::size_t>(n * kSize));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::memcpy(y + i * y_stride, x + i * x_stride + index[i * index_stride] * step, sizeof(Word));
  }
}

template <class Word, class Index>
void gather_words(const TensorView& y, const TensorView& x, const TensorView& index, int axis) {
  TensorView rows = x;  // x's rows, each where its first element is
  rows.shape = y.shape;
  rows.strides[axis] = 0;
  const std::int64_t step = x.strides[axis] * size_of(x.dtype);
  const auto walk = make_walk<3>({&y, &rows, &index});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
    gather_row<Word>(n, at[0], at[1], reinterpret_cast<const Index*>(at[2]), strides[0], strides[1],
                     strides[2] / std::int64_t{sizeof(Index)}, step);
  });
}

void gather_along(const KernelContext& context, const TensorView& index, int axis) {
  const TensorView &x = context.in(0), &y = context.out();
  if (y.numel() == 0) return;
  visit_indices(context, index.dtype, [&](auto tag) {
    using Index = typename decltype(tag)::type;
    switch (size_of(y.dtype)) {
      case 1:
        return gather_words<std::uint8_t, Index>(y, x, index, axis);
      case 2:
        return gather_words<std::uint16_t, Index>(y, x, index, axis);
      case 4:
        return gather_words<std::uint32_t, Index>(y, x, index, axis);
      default:
        return gather_words<std::uint64_t, Index>(y, x, index, axis);
    }
  });
}

// --- backward ---

// Neighbouring rows along the axis, added side by side. `step` is the distance along the axis and `row` that between
// rows, in elements.
struct ScatterRows {
  std::int64_t rows, length, extent;  // dy's and dx's elements a row
  std::int64_t dx_step, dx_row, dy_step, dy_row, index_step, index_row;
};

template <class C, class T, class Index>
void add_rows(const ScatterRows& s, C* to, std::int64_t to_step, std::int64_t to_row, const T* dy, const Index* index) {
  for (std::int64_t j = 0; j < s.length; ++j) {
    for (std::int64_t i = 0; i < s.rows; ++i) {
      to[index[j * s.index_step + i * s.index_row] * to_step + i * to_row] +=
          kernels::load(dy[j * s.dy_step + i * s.dy_row]);
    }
  }
}

// 16-bit floats are summed in float beside the result and rounded once.
template <class T, class Index>
void scatter_rows(const ScatterRows& s, T* dx, const T* dy, const Index* index) {
  if constexpr (!kernels::is_half<T>) {
    add_rows(s, dx, s.dx_step, s.dx_row, dy, index);
  } else {
    thread_local std::vector<float> sums;
    sums.assign(static_cast<std::size_t>(s.extent * s.rows), 0.0f);
    add_rows(s, sums.data(), s.rows, std::int64_t{1}, dy, index);
    for (std::int64_t e = 0; e < s.extent; ++e) {
      for (std::int64_t i = 0; i < s.rows; ++i) {
        dx[e * s.dx_step + i * s.dx_row] = kernels::store<T>(sums[static_cast<std::size_t>(e * s.rows + i)]);
      }
    }
  }
}

// How many neighbouring rows are worked on together: all where they lie closer than the elements of one row.
template <class T>
std::int64_t rows_together(const ScatterRows& s) {
  if (s.dx_row >= s.dx_step) return 1;
  if (!kernels::is_half<T>) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(1, kScratch / std::max<std::int64_t>(1, s.extent));
}

template <class T, class Index>
void scatter_along(const TensorView& dx, const TensorView& dy, const TensorView& index, int axis) {
  TensorView reached = dx;  // rows of dx beyond the index's other extents stay zero
  reached.shape = dy.shape;
  const TensorView starts[] = {row_starts(reached, axis), row_starts(dy, axis), row_starts(index, axis)};
  const auto walk = make_walk<3>({&starts[0], &starts[1], &starts[2]});
  const auto strides = walk.inner_strides();
  ScatterRows common{.rows = 0,
                     .length = dy.shape[axis],
                     .extent = dx.shape[axis],
                     .dx_step = dx.strides[axis],
                     .dx_row = strides[0] / std::int64_t{sizeof(T)},
                     .dy_step = dy.strides[axis],
                     .dy_row = strides[1] / std::int64_t{sizeof(T)},
                     .index_step = index.strides[axis],
                     .index_row = strides[2] / std::int64_t{sizeof(Index)}};
  constexpr std::int64_t kLine = 64 / std::int64_t{sizeof(T)};  // tasks write cache lines of their own
  const std::int64_t grain = std::max(kLine, kElementGrain / common.length / kLine * kLine);
  const std::int64_t together = rows_together<T>(common);
  parallel_for(walk.count, grain, [&](std::int64_t begin, std::int64_t end) {
    walk_range(walk, begin, end, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
      ScatterRows rows = common;
      for (std::int64_t i = 0; i < n; i += rows.rows) {
        rows.rows = std::min(together, n - i);
        scatter_rows(rows, reinterpret_cast<T*>(at[0]) + i * rows.dx_row,
                     reinterpret_cast<const T*>(at[1]) + i * rows.dy_row,
                     reinterpret_cast<const Index*>(at[2]) + i * rows.index_row);
      }
    });
  });
}

void scatter_add(const KernelContext& context, const TensorView& index, int axis) {
  const TensorView &dy = context.in(0), &dx = context.out();
  fill_view(dx, 0);
  if (dy.numel() == 0) return;
  visit_floats(context, dx.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    visit_indices(context, index.dtype,
                  [&](auto tag) { scatter_along<T, typename decltype(tag)::type>(dx, dy, index, axis); });
  });
}

// Whether a selection along `axis` is one of whole dense rows, and then dy and dx as tables of them.
bool selects_rows(const TensorView& dy, const TensorView& dx, int axis, TensorView& values, TensorView& table) {
  std::int64_t before = 1, width = 1;
  for (int i = 0; i < dx.shape.rank(); ++i) (i < axis ? before : width) *= i == axis ? 1 : dx.shape[i];
  if (before != 1 || width < kWholeRow || !dy.is_contiguous() || !dx.is_contiguous()) return false;
  values = dy;
  values.shape = {dy.shape[axis], width};
  values.strides = contiguous_strides(values.shape);
  table = dx;
  table.shape = {dx.shape[axis], width};
  table.strides = contiguous_strides(table.shape);
  return true;
}

}  // namespace

void gather(const KernelContext& context) {
  const int axis = axis_of(context);
  const TensorView& index = context.in(1);
  check_axis_indices(context, "index", index, context.in(0).shape, axis);
  gather_along(context, index, axis);
}

void gather_backward(const KernelContext& context) {
  const int axis = axis_of(context);
  const TensorView& index = context.in(1);
  check_axis_indices(context, "index", index, context.out().shape, axis);
  scatter_add(context, index, axis);
}

void index_select(const KernelContext& context) {
  const int axis = axis_of(context);
  check_axis_indices(context, "indices", context.in(1), context.in(0).shape, axis);
  gather_along(context, repeated(context.in(1), context.out().shape, axis), axis);
}

void index_select_backward(const KernelContext& context) {
  const int axis = axis_of(context);
  const TensorView &dy = context.in(0), &indices = context.in(1), &dx = context.out();
  check_axis_indices(context, "indices", indices, dx.shape, axis);
  TensorView values, table;
  if (!selects_rows(dy, dx, axis, values, table)) return scatter_add(context, repeated(indices, dy.shape, axis), axis);
  const TensorView inputs[] = {values, indices};
  embedding_dense_backward(
      {.op = context.op, .inputs = inputs, .outputs = std::span(&table, 1), .attributes = context.attributes});
}

}  // namespace ferry::cpu_backend
