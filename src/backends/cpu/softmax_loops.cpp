#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/softmax_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>

#include "src/backends/cpu/lanes-inl.h"
#include "src/backends/cpu/softmax_loops.h"
#include "src/base/check.h"
#include "src/kernels/math.h"

#ifndef FERRY_SOFTMAX_TABLE
#define FERRY_SOFTMAX_TABLE
namespace ferry::cpu_backend {
using SoftmaxTable = std::array<SoftmaxLoops, kDTypeCount>;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Calls body(row, place in the row, position in memory) for each element; independent of one another.
template <class Body>
FERRY_FUNCTOR void for_each_element(const RowBlock& block, const Body& body) {
  if (block.step == 1) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      const std::int64_t first = r * block.length;
      FERRY_INDEPENDENT
      for (std::int64_t i = 0; i < block.length; ++i) body(r, i, first + i);
    }
    return;
  }
  for (std::int64_t i = 0; i < block.length; ++i) {
    const std::int64_t first = i * block.step;
    FERRY_INDEPENDENT
    for (std::int64_t r = 0; r < block.count; ++r) body(r, i, first + r);
  }
}

// result[row] = combine over term(row, place, position), in lanes along contiguous rows and in order down columns.
template <class C, class Combine, class Term>
FERRY_FUNCTOR void reduce_rows(const RowBlock& block, C identity, const Combine& combine, const Term& term, C* result) {
  if (block.step == 1) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      const std::int64_t first = r * block.length;
      result[r] =
          reduce_lanes<C>(block.length, identity, combine, [&](std::int64_t i) { return term(r, i, first + i); });
    }
    return;
  }
  for (std::int64_t r = 0; r < block.count; ++r) result[r] = identity;
  for (std::int64_t i = 0; i < block.length; ++i) {
    const std::int64_t first = i * block.step;
    FERRY_INDEPENDENT
    for (std::int64_t r = 0; r < block.count; ++r) result[r] = combine(result[r], term(r, i, first + r));
  }
}

template <class T>
struct SoftmaxRows {
  using C = kernels::Compute<T>;
  using Row = std::int64_t;
  // Whether a value may be stored in T and read again without loss.
  static constexpr bool kStoresC = std::is_same_v<T, C>;

  static const T* in(const std::byte* x) { return reinterpret_cast<const T*>(x); }
  static T* out(std::byte* x) { return reinterpret_cast<T*>(x); }

  static void largest_of(const RowBlock& block, const T* x, C* largest) {
    reduce_rows<C>(
        block, -std::numeric_limits<C>::infinity(), kernels::Maximum{},
        [x](Row, Row, Row at) { return kernels::load(x[at]); }, largest);
  }

  static void sum_exponentials(const RowBlock& block, const T* x, const C* largest, C* sum) {
    reduce_rows<C>(
        block, C(0), kernels::Add{},
        [=](Row r, Row, Row at) { return kernels::exp(kernels::load(x[at]) - largest[r]); }, sum);
  }

  static void softmax(const RowBlock& block, const std::byte* x_bytes, std::byte* y_bytes) {
    const T* const x = in(x_bytes);
    T* const y = out(y_bytes);
    C largest[kBlockRows] = {}, scale[kBlockRows] = {};
    largest_of(block, x, largest);
    if constexpr (kStoresC) {
      for_each_element(block, [=, &largest](Row r, Row, Row at) { y[at] = kernels::exp(x[at] - largest[r]); });
      reduce_rows<C>(
          block, C(0), kernels::Add{}, [=](Row, Row, Row at) { return y[at]; }, scale);
    } else {
      sum_exponentials(block, x, largest, scale);
    }
    for (Row r = 0; r < block.count; ++r) scale[r] = C(1) / scale[r];
    for_each_element(block, [=, &largest, &scale](Row r, Row, Row at) {
      if constexpr (kStoresC) {
        y[at] = y[at] * scale[r];
      } else {
        y[at] = kernels::store<T>(kernels::exp(kernels::load(x[at]) - largest[r]) * scale[r]);
      }
    });
  }

  static void log_softmax(const RowBlock& block, const std::byte* x_bytes, std::byte* y_bytes) {
    const T* const x = in(x_bytes);
    T* const y = out(y_bytes);
    C largest[kBlockRows] = {}, log_sum[kBlockRows] = {};
    largest_of(block, x, largest);
    sum_exponentials(block, x, largest, log_sum);
    for (Row r = 0; r < block.count; ++r) log_sum[r] = kernels::log(log_sum[r]);
    for_each_element(block, [=, &largest, &log_sum](Row r, Row, Row at) {
      y[at] = kernels::store<T>((kernels::load(x[at]) - largest[r]) - log_sum[r]);
    });
  }

  static void softmax_backward(const RowBlock& block, const std::byte* dy_bytes, const std::byte* y_bytes,
                               std::byte* dx_bytes) {
    const T *const dy = in(dy_bytes), *const y = in(y_bytes);
    T* const dx = out(dx_bytes);
    C projection[kBlockRows] = {};
    reduce_rows<C>(
        block, C(0), kernels::Add{}, [=](Row, Row, Row at) { return kernels::load(dy[at]) * kernels::load(y[at]); },
        projection);
    for_each_element(block, [=, &projection](Row r, Row, Row at) {
      dx[at] = kernels::store<T>(kernels::load(y[at]) * (kernels::load(dy[at]) - projection[r]));
    });
  }

  static void log_softmax_backward(const RowBlock& block, const std::byte* dy_bytes, const std::byte* y_bytes,
                                   std::byte* dx_bytes) {
    const T *const dy = in(dy_bytes), *const y = in(y_bytes);
    T* const dx = out(dx_bytes);
    C sum[kBlockRows] = {};
    reduce_rows<C>(
        block, C(0), kernels::Add{}, [=](Row, Row, Row at) { return kernels::load(dy[at]); }, sum);
    for_each_element(block, [=, &sum](Row r, Row, Row at) {
      dx[at] = kernels::store<T>(kernels::load(dy[at]) - kernels::exp(kernels::load(y[at])) * sum[r]);
    });
  }

  static void log_sum_exp(const RowBlock& block, const std::byte* x_bytes, std::byte* largest_bytes,
                          std::byte* log_sum_bytes) {
    const T* const x = in(x_bytes);
    auto* const largest = reinterpret_cast<C*>(largest_bytes);
    auto* const log_sum = reinterpret_cast<C*>(log_sum_bytes);
    largest_of(block, x, largest);
    // Infinities cancel in x - largest; the sum of e^x alone gives what they come to.
    for (Row r = 0; r < block.count; ++r) largest[r] = std::isfinite(largest[r]) ? largest[r] : C(0);
    sum_exponentials(block, x, largest, log_sum);
    for (Row r = 0; r < block.count; ++r) log_sum[r] = kernels::log(log_sum[r]);
  }

  static void exponential(const RowBlock& block, const std::byte* x_bytes, const std::byte* log_bytes,
                          const std::byte* slope_bytes, std::byte* dx_bytes) {
    const T* const x = in(x_bytes);
    T* const dx = out(dx_bytes);
    auto *const log = reinterpret_cast<const C*>(log_bytes), *const slope = reinterpret_cast<const C*>(slope_bytes);
    for_each_element(block, [=](Row r, Row, Row at) {
      dx[at] = kernels::store<T>(slope[r] * kernels::exp(kernels::load(x[at]) - log[r]));
    });
  }

  static void shifted(const RowBlock& block, const std::byte* x_bytes, const std::byte* log_bytes,
                      const std::byte* slope_bytes, const std::byte* shift_bytes, const std::byte* weight_bytes,
                      std::byte* dx_bytes) {
    const T* const x = in(x_bytes);
    T* const dx = out(dx_bytes);
    auto *const log = reinterpret_cast<const C*>(log_bytes), *const slope = reinterpret_cast<const C*>(slope_bytes),
                *const shift = reinterpret_cast<const C*>(shift_bytes),
                *const weights = reinterpret_cast<const C*>(weight_bytes);
    for_each_element(block, [=](Row r, Row i, Row at) {
      const C exponential = slope[r] * kernels::exp(kernels::load(x[at]) - log[r]);
      dx[at] = kernels::store<T>(exponential - shift[r] * weights[i]);
    });
  }

  static void weighted_distance(const RowBlock& block, const std::byte* x_bytes, const std::byte* anchor_bytes,
                                const std::byte* weight_bytes, std::byte* sum_bytes) {
    const T* const x = in(x_bytes);
    auto *const anchor = reinterpret_cast<const C*>(anchor_bytes), *const weights =
                                                                       reinterpret_cast<const C*>(weight_bytes);
    reduce_rows<C>(
        block, C(0), kernels::Add{},
        [=](Row r, Row i, Row at) { return weights[i] * (anchor[r] - kernels::load(x[at])); },
        reinterpret_cast<C*>(sum_bytes));
  }

  static constexpr SoftmaxLoops all() {
    return {softmax,     log_softmax, softmax_backward, log_softmax_backward,
            log_sum_exp, exponential, shifted,          weighted_distance};
  }
};

SoftmaxTable softmax_table() {
  return {SoftmaxRows<float>::all(), SoftmaxRows<double>::all(), SoftmaxRows<float16>::all(),
          SoftmaxRows<bfloat16>::all()};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(softmax_table);

const SoftmaxLoops& softmax_loops(const KernelContext& context, DType dtype) {
  static const SoftmaxTable table = HWY_DYNAMIC_DISPATCH(softmax_table)();
  const SoftmaxLoops& loops = table[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loops.softmax != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
  return loops;
}

}  // namespace ferry::cpu_backend
#endif
