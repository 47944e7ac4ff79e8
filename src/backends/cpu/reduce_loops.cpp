#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/reduce_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/reduce.h"
#include "src/kernels/convert.h"
#include "src/kernels/lanes.h"
#include "src/kernels/reduce.h"
#include "src/ops/attributes.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class Op, class T>
struct Loops {
  using Lane = typename Op::template Lane<T>;
  using Total = typename Op::template Total<T>;

  static Lane lane(const std::byte* x) { return static_cast<Lane>(kernels::load(*reinterpret_cast<const T*>(x))); }

  static void add_to(std::byte* total, Lane value) {
    auto* const sum = reinterpret_cast<Total*>(total);
    *sum = Op::combine(*sum, static_cast<Total>(value));
  }

  static void reset(std::int64_t n, std::byte* totals) {
    auto* const t = reinterpret_cast<Total*>(totals);
    for (std::int64_t i = 0; i < n; ++i) t[i] = Op::template identity<Total>();
  }

  static void combine(std::int64_t n, std::byte* totals, const std::byte* others) {
    auto* const t = reinterpret_cast<Total*>(totals);
    auto* const o = reinterpret_cast<const Total*>(others);
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) t[i] = Op::combine(t[i], o[i]);
  }

  template <bool kDense>
  static Lane run(std::int64_t n, const std::byte* x, std::int64_t stride) {
    const std::int64_t step = kDense ? std::int64_t{sizeof(T)} : stride;
    return kernels::lane_reduce(
        n, Op::template identity<Lane>(), [](Lane a, Lane b) { return Op::combine(a, b); },
        [&](std::int64_t i) { return lane(x + i * step); });
  }

  static void row(std::int64_t n, const std::byte* x, std::int64_t stride, std::byte* total) {
    add_to(total, stride == sizeof(T) ? run<true>(n, x, 0) : run<false>(n, x, stride));
  }

  static void columns(std::int64_t n, std::int64_t rows, const std::byte* x, std::int64_t stride,
                      std::int64_t row_stride, std::byte* totals) {
    Lane lanes[kColumns];
    for (std::int64_t j = 0; j < n; ++j) lanes[j] = Op::template identity<Lane>();
    for (std::int64_t r = 0; r < rows; ++r, x += row_stride) {
      if (stride == sizeof(T)) {
        auto* const elements = reinterpret_cast<const T*>(x);
        FERRY_INDEPENDENT
        for (std::int64_t j = 0; j < n; ++j) {
          lanes[j] = Op::combine(lanes[j], static_cast<Lane>(kernels::load(elements[j])));
        }
      } else {
        for (std::int64_t j = 0; j < n; ++j) lanes[j] = Op::combine(lanes[j], lane(x + j * stride));
      }
    }
    for (std::int64_t j = 0; j < n; ++j) add_to(totals + j * std::int64_t{sizeof(Total)}, lanes[j]);
  }

  static void finish(std::int64_t n, const std::byte* totals, std::byte* y, std::int64_t stride, double divisor) {
    auto* const t = reinterpret_cast<const Total*>(totals);
    for (std::int64_t i = 0; i < n; ++i) {
      auto* const to = reinterpret_cast<T*>(y + i * stride);
      if constexpr (std::is_integral_v<T>) {
        *to = static_cast<T>(t[i]);
      } else {
        *to = kernels::convert<T>(t[i] / divisor);
      }
    }
  }
};

template <class Op, class... Ts>
ReduceTable reduce_table() {
  ReduceTable table;
  ((table[static_cast<std::size_t>(dtype_of<Ts>)] = {Loops<Op, Ts>::reset, Loops<Op, Ts>::combine, Loops<Op, Ts>::row,
                                                     Loops<Op, Ts>::columns, Loops<Op, Ts>::finish}),
   ...);
  return table;
}

ReduceTable sum_table() {
  return reduce_table<kernels::SumReduction, float, double, float16, bfloat16, std::int32_t, std::int64_t,
                      std::uint8_t>();
}
ReduceTable max_table() {
  return reduce_table<kernels::MaxReduction, float, double, float16, bfloat16, std::int32_t, std::int64_t,
                      std::uint8_t>();
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(sum_table);
HWY_EXPORT(max_table);

namespace {

const ReduceTable& sums() {
  static const ReduceTable table = HWY_DYNAMIC_DISPATCH(sum_table)();
  return table;
}

}  // namespace

void sum(const KernelContext& context) { run_reduction(context, sums()); }

void mean(const KernelContext& context) {
  const Shape& shape = context.in(0).shape;
  const Dims& reduced = context.attributes.as<ops::ReduceAttributes>().reduced;
  double count = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) count *= reduced[axis] != 0 ? static_cast<double>(shape[axis]) : 1;
  run_reduction(context, sums(), count);
}

void max(const KernelContext& context) {
  static const ReduceTable table = HWY_DYNAMIC_DISPATCH(max_table)();
  run_reduction(context, table);
}

}  // namespace ferry::cpu_backend
#endif
