#include "src/backends/cpu/matmul_problem.h"

#include <algorithm>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"

namespace ferry::cpu_backend {
namespace {

std::size_t copy_size(const TensorView& view) { return static_cast<std::size_t>(view.numel() * size_of(view.dtype)); }

// An extent of 1 fits any step; BLAS-like kernels want the one that a dense matrix has.
void normalize(Steps& steps, std::int64_t rows, std::int64_t columns) {
  if (columns == 1 && steps.row != 1) {
    steps.column = 1;
    if (rows == 1) steps.row = 1;
  } else if (columns == 1) {
    steps.column = std::max<std::int64_t>(rows, 1);
  } else if (rows == 1) {
    steps.row = steps.column == 1 ? columns : 1;
  }
}

bool is_matrix(const Steps& steps, std::int64_t rows, std::int64_t columns) {
  return (steps.column == 1 && steps.row >= columns) || (steps.row == 1 && steps.column >= rows);
}

Steps matrix_steps(const TensorView& view) {
  const int rank = view.shape.rank();
  Steps steps{0, view.strides[rank - 2], view.strides[rank - 1]};
  normalize(steps, view.shape[rank - 2], view.shape[rank - 1]);
  return steps;
}

bool needs_copy(const TensorView& view) {
  const int rank = view.shape.rank();
  return !is_matrix(matrix_steps(view), view.shape[rank - 2], view.shape[rank - 1]);
}

// The operand as it is, or a copy at `place` whose rows are contiguous; batch axes that repeat still do so.
TensorView as_matrices(std::string_view op, const TensorView& view, std::byte*& place) {
  const int rank = view.shape.rank();
  TensorView result = view;
  if (!needs_copy(view)) {
    const Steps steps = matrix_steps(view);
    result.strides[rank - 2] = steps.row;
    result.strides[rank - 1] = steps.column;
    return result;
  }
  TensorView distinct = view;
  for (int i = 0; i < rank - 2; ++i) {
    if (view.strides[i] == 0) distinct.shape[i] = 1;
  }
  copy_contiguous(op, distinct, place);
  result.data = place;
  result.strides = contiguous_strides(distinct.shape);
  for (int i = 0; i < rank - 2; ++i) {
    if (view.strides[i] == 0) result.strides[i] = 0;
  }
  const Steps steps = matrix_steps(result);
  result.strides[rank - 2] = steps.row;
  result.strides[rank - 1] = steps.column;
  place += copy_size(distinct);
  return result;
}

MatmulProblem innermost_problem(const TensorView& a, const TensorView& b, const TensorView& y, BatchAxes& batch) {
  const int rank = y.shape.rank();
  MatmulProblem problem{.batch = 1,
                        .m = y.shape[rank - 2],
                        .n = y.shape[rank - 1],
                        .k = a.shape[rank - 1],
                        .a = {0, a.strides[rank - 2], a.strides[rank - 1]},
                        .b = {0, b.strides[rank - 2], b.strides[rank - 1]},
                        .y = {0, y.shape[rank - 1], 1}};
  for (int i = 0; i < rank - 2; ++i) batch.push({y.shape[i], a.strides[i], b.strides[i], y.strides[i]});
  if (batch.count == 0) return problem;
  const BatchAxes::Axis axis = batch.axes[static_cast<std::size_t>(batch.count - 1)];
  // oneDNN wants the result's batch in one of the operands: where both repeat, each product is one call.
  if (axis.a == 0 && axis.b == 0) return problem;
  const bool rows_continue = problem.m == 1 || axis.a == problem.m * problem.a.row;
  if (axis.b == 0 && rows_continue && problem.a.column == 1 && axis.a >= problem.k) {
    // One b for all: the batch is more rows.
    if (problem.m == 1) problem.a.row = axis.a;
    problem.m *= axis.extent;
  } else {
    problem.batch = axis.extent;
    problem.a.batch = axis.a;
    problem.b.batch = axis.b;
    problem.y.batch = axis.y;
  }
  --batch.count;
  return problem;
}

}  // namespace

void BatchAxes::push(const Axis& axis) {
  if (axis.extent == 1) return;
  if (count > 0) {
    Axis& outer = axes[static_cast<std::size_t>(count - 1)];
    const std::int64_t n = axis.extent;
    if (outer.a == axis.a * n && outer.b == axis.b * n && outer.y == axis.y * n) {
      outer = {outer.extent * n, axis.a, axis.b, axis.y};
      return;
    }
  }
  axes[static_cast<std::size_t>(count++)] = axis;
}

std::int64_t BatchAxes::size() const {
  std::int64_t size = 1;
  for (int i = 0; i < count; ++i) size *= axes[static_cast<std::size_t>(i)].extent;
  return size;
}

BatchAxes::Axis BatchAxes::offsets(std::int64_t i) const {
  Axis sum{1, 0, 0, 0};
  for (int k = count - 1; k >= 0; --k) {
    const Axis& axis = axes[static_cast<std::size_t>(k)];
    const std::int64_t at = i % axis.extent;
    i /= axis.extent;
    sum.a += at * axis.a;
    sum.b += at * axis.b;
    sum.y += at * axis.y;
  }
  return sum;
}

BatchedMatmul prepare_matmul(std::string_view op, const TensorView& a, const TensorView& b, const TensorView& y) {
  std::byte* place = nullptr;
  if (needs_copy(a) || needs_copy(b)) {
    place = dnn::work_buffer(dnn::Buffer::operand, copy_size(a) + copy_size(b));
  }
  const TensorView left = as_matrices(op, a, place);
  const TensorView right = as_matrices(op, b, place);
  BatchedMatmul result{
      .problem = {}, .outer = {}, .a = left.as<std::byte>(), .b = right.as<std::byte>(), .y = y.as<std::byte>()};
  result.problem = innermost_problem(left, right, y, result.outer);
  return result;
}

}  // namespace ferry::cpu_backend
