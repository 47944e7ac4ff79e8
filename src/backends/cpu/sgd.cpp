#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/sgd.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <span>
#include <vector>

#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/optimizer.h"
#include "src/backends/cpu/row_order.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"
#include "src/kernels/sgd.h"
#include "src/ops/sgd.h"

#ifndef FERRY_SGD_ROW
#define FERRY_SGD_ROW
namespace ferry::cpu_backend {

// A row of each array; steps in elements. velocity: null for none.
struct SgdRow {
  std::int64_t length;
  std::byte *parameter, *velocity;
  const std::byte* gradient;
  std::int64_t parameter_step = 1, velocity_step = 1, gradient_step = 1;
};
using SgdLoop = void (*)(const ops::SgdAttributes&, const SgdRow&);
using SgdTable = std::array<SgdLoop, kDTypeCount>;

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T, bool kDense>
void update(const kernels::Sgd<kernels::Compute<T>>& sgd, const SgdRow& row) {
  using C = kernels::Compute<T>;
  auto* const p = reinterpret_cast<T*>(row.parameter);
  auto* const v = reinterpret_cast<T*>(row.velocity);
  auto* const g = reinterpret_cast<const T*>(row.gradient);
  const std::int64_t n = row.length, p_step = kDense ? 1 : row.parameter_step, v_step = kDense ? 1 : row.velocity_step,
                     g_step = kDense ? 1 : row.gradient_step;
  const auto rule = sgd;  // a copy that the stores below cannot change
  if (v == nullptr) {
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) {
      p[i * p_step] = kernels::store<T>(rule(kernels::load(p[i * p_step]), kernels::load(g[i * g_step])));
    }
    return;
  }
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    C velocity = kernels::load(v[i * v_step]);
    p[i * p_step] = kernels::store<T>(rule(kernels::load(p[i * p_step]), kernels::load(g[i * g_step]), velocity));
    v[i * v_step] = kernels::store<T>(velocity);
  }
}

template <class T>
void update_row(const ops::SgdAttributes& options, const SgdRow& row) {
  using C = kernels::Compute<T>;
  const kernels::Sgd<C> sgd{.rate = static_cast<C>(options.rate),
                            .momentum = static_cast<C>(options.momentum),
                            .undampened = static_cast<C>(1 - options.dampening),
                            .weight_decay = static_cast<C>(options.weight_decay),
                            .nesterov = options.nesterov,
                            .first_step = options.first_step};
  const bool dense = row.parameter_step == 1 && row.velocity_step == 1 && row.gradient_step == 1;
  dense ? update<T, true>(sgd, row) : update<T, false>(sgd, row);
}

SgdTable sgd_table() { return {update_row<float>, update_row<double>, update_row<float16>, update_row<bfloat16>}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(sgd_table);

namespace {

SgdLoop loop_for(const KernelContext& context, DType dtype) {
  static const SgdTable table = HWY_DYNAMIC_DISPATCH(sgd_table)();
  const SgdLoop loop = table[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loop != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
  return loop;
}

}  // namespace

void sgd_(const KernelContext& context) {
  const TensorView &parameter = context.out(0), &gradient = context.in(1);
  const bool has_velocity = context.has_output(1);
  const TensorView& velocity = has_velocity ? context.out(1) : parameter;
  const auto& options = context.attributes.as<ops::SgdAttributes>();
  const SgdLoop loop = loop_for(context, parameter.dtype);
  const auto walk = make_walk<3>({&parameter, &gradient, &velocity});
  const auto strides = walk.inner_strides();
  const std::int64_t size = size_of(parameter.dtype);
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
    loop(options, {.length = n,
                   .parameter = at[0],
                   .velocity = has_velocity ? at[2] : nullptr,
                   .gradient = at[1],
                   .parameter_step = strides[0] / size,
                   .velocity_step = strides[2] / size,
                   .gradient_step = strides[1] / size});
  });
}

void sgd_rows_(const KernelContext& context) {
  const TensorView &parameter = context.out(0), &rows = context.in(1), &values = context.in(2);
  std::byte* const velocity = context.has_output(1) ? context.out(1).as<std::byte>() : nullptr;
  const auto& options = context.attributes.as<ops::SgdAttributes>();
  const SgdLoop loop = loop_for(context, parameter.dtype);
  const RowLoops& sums = row_loops(values.dtype);
  check_indices(context, {.name = "rows",
                          .view = rows,
                          .bound = parameter.shape[0],
                          .into = "param",
                          .shape = parameter.shape,
                          .lowest = -1});
  const RowOrder order = order_rows(rows);
  const std::int64_t width = parameter.shape[1], bytes = width * size_of(parameter.dtype);
  const auto update = [&](std::size_t s, std::span<const std::byte* const> from) {
    const std::int64_t at = order.rows[s] * bytes;
    const std::byte* gradient = from[0];
    std::vector<std::byte> total;
    if (from.size() > 1) {
      total.resize(static_cast<std::size_t>(bytes));
      sums.sum(width, total.data(), nullptr, from.data(), static_cast<std::int64_t>(from.size()), 1);
      gradient = total.data();
    }
    loop(options, {.length = width,
                   .parameter = parameter.as<std::byte>() + at,
                   .velocity = velocity == nullptr ? nullptr : velocity + at,
                   .gradient = gradient});
  };
  for_each_segment(order, values, update, [&](std::size_t s) {
    prefetch_row(parameter.as<std::byte>() + order.rows[s] * bytes, bytes);
    if (velocity != nullptr) prefetch_row(velocity + order.rows[s] * bytes, bytes);
  });
}

}  // namespace ferry::cpu_backend
#endif
