#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/l2_normalize.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/rows.h"
#include "src/backends/cpu/view_ops.h"
#include "src/base/check.h"
#include "src/kernels/lanes.h"
#include "src/ops/attributes.h"

#ifndef FERRY_L2_NORMALIZE_ROWS
#define FERRY_L2_NORMALIZE_ROWS
namespace ferry::cpu_backend {

// One row of each array: where it starts, and the distance of its elements in elements.
struct NormalizeRow {
  std::int64_t length;
  double epsilon;
  std::byte *x = nullptr, *y = nullptr, *norm = nullptr, *dy = nullptr;  // dy: backward only, where x is written
  std::int64_t x_step = 1, y_step = 1, dy_step = 1;
};
using NormalizeLoop = void (*)(const NormalizeRow&);
using NormalizeTable = std::array<NormalizeLoop, kDTypeCount>;

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T, bool kDense>
void forward(const NormalizeRow& row) {
  using C = kernels::Compute<T>;
  const std::int64_t n = row.length, x_step = kDense ? 1 : row.x_step, y_step = kDense ? 1 : row.y_step;
  auto* const x = reinterpret_cast<const T*>(row.x);
  auto* const y = reinterpret_cast<T*>(row.y);
  const C norm = std::sqrt(kernels::lane_sum<C>(n, [&](std::int64_t i) {
    const C value = kernels::load(x[i * x_step]);
    return value * value;
  }));
  const C divisor = std::max(norm, static_cast<C>(row.epsilon));
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = kernels::store<T>(kernels::load(x[i * x_step]) / divisor);
  *reinterpret_cast<T*>(row.norm) = kernels::store<T>(norm);
}

// dx = (dy - y <dy, y>) / norm, and dy / epsilon where the norm was below epsilon: y is x / epsilon there.
template <class T, bool kDense>
void backward(const NormalizeRow& row) {
  using C = kernels::Compute<T>;
  const std::int64_t n = row.length, x_step = kDense ? 1 : row.x_step, y_step = kDense ? 1 : row.y_step,
                     dy_step = kDense ? 1 : row.dy_step;
  auto* const dx = reinterpret_cast<T*>(row.x);
  auto* const y = reinterpret_cast<const T*>(row.y);
  auto* const dy = reinterpret_cast<const T*>(row.dy);
  const C norm = kernels::load(*reinterpret_cast<const T*>(row.norm)), epsilon = static_cast<C>(row.epsilon);
  const bool clamped = norm < epsilon;
  const C projection = clamped ? C(0) : kernels::lane_sum<C>(n, [&](std::int64_t i) {
    return kernels::load(dy[i * dy_step]) * kernels::load(y[i * y_step]);
  });
  const C divisor = clamped ? epsilon : norm;
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i * x_step] =
        kernels::store<T>((kernels::load(dy[i * dy_step]) - kernels::load(y[i * y_step]) * projection) / divisor);
  }
}

template <class T>
void forward_row(const NormalizeRow& row) {
  row.x_step == 1 && row.y_step == 1 ? forward<T, true>(row) : forward<T, false>(row);
}
template <class T>
void backward_row(const NormalizeRow& row) {
  row.x_step == 1 && row.y_step == 1 && row.dy_step == 1 ? backward<T, true>(row) : backward<T, false>(row);
}

NormalizeTable forward_table() {
  return {forward_row<float>, forward_row<double>, forward_row<float16>, forward_row<bfloat16>};
}
NormalizeTable backward_table() {
  return {backward_row<float>, backward_row<double>, backward_row<float16>, backward_row<bfloat16>};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(forward_table);
HWY_EXPORT(backward_table);

namespace {

NormalizeLoop loop_for(const KernelContext& context, const NormalizeTable& table, DType dtype) {
  const NormalizeLoop loop = table[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loop != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
  return loop;
}

}  // namespace

void l2_normalize(const KernelContext& context) {
  static const NormalizeTable table = HWY_DYNAMIC_DISPATCH(forward_table)();
  const TensorView &x = context.in(0), &y = context.out(0), &norm = context.out(1);
  const auto& [axis, epsilon] = context.attributes.as<ops::L2NormalizeAttributes>();
  const NormalizeLoop loop = loop_for(context, table, x.dtype);
  const NormalizeRow common{
      .length = x.shape[axis], .epsilon = epsilon, .x_step = x.strides[axis], .y_step = y.strides[axis]};
  if (common.length == 0) return fill_view(norm, 0);
  for_each_row<3>({x, y, norm}, axis, [&](const std::array<std::byte*, 3>& at) {
    NormalizeRow row = common;
    row.x = at[0];
    row.y = at[1];
    row.norm = at[2];
    loop(row);
  });
}

void l2_normalize_backward(const KernelContext& context) {
  static const NormalizeTable table = HWY_DYNAMIC_DISPATCH(backward_table)();
  const TensorView &dy = context.in(0), &y = context.in(1), &norm = context.in(2), &dx = context.out();
  const auto& [axis, epsilon] = context.attributes.as<ops::L2NormalizeAttributes>();
  const NormalizeLoop loop = loop_for(context, table, dx.dtype);
  const NormalizeRow common{.length = dx.shape[axis],
                            .epsilon = epsilon,
                            .x_step = dx.strides[axis],
                            .y_step = y.strides[axis],
                            .dy_step = dy.strides[axis]};
  if (common.length == 0) return;
  for_each_row<4>({dx, y, norm, dy}, axis, [&](const std::array<std::byte*, 4>& at) {
    NormalizeRow row = common;
    row.x = at[0];
    row.y = at[1];
    row.norm = at[2];
    row.dy = at[3];
    loop(row);
  });
}

}  // namespace ferry::cpu_backend
#endif
