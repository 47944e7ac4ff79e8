#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/square_error.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"
#include "src/kernels/elementwise.h"
#include "src/ops/attributes.h"

#ifndef FERRY_SQUARE_ERROR_LOOP
#define FERRY_SQUARE_ERROR_LOOP
namespace ferry::cpu_backend {

// n elements of dx, dy, a and b at these pointers, with these steps in bytes; `target`: null, or what stands for b.
using SquareErrorLoop = void (*)(std::int64_t n, const std::array<std::byte*, 4>& at,
                                 const std::array<std::int64_t, 4>& steps, const double* target);
using SquareErrorTable = std::array<SquareErrorLoop, kDTypeCount>;

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// kDy, kB: 1 where that operand is dense, 0 where one element stands for all.
template <class T, int kDy, int kB>
void dense_loop(std::int64_t n, const std::array<std::byte*, 4>& at, const double* target) {
  auto* const dx = reinterpret_cast<T*>(at[0]);
  auto* const dy = reinterpret_cast<const T*>(at[1]);
  auto* const a = reinterpret_cast<const T*>(at[2]);
  auto* const b = reinterpret_cast<const T*>(at[3]);
  const auto first_dy = kernels::load(dy[0]);
  const auto first_b = target == nullptr ? kernels::load(b[0]) : static_cast<kernels::Compute<T>>(*target);
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const auto slope = kDy == 1 ? kernels::load(dy[i]) : first_dy;
    const auto other = kB == 1 ? kernels::load(b[i]) : first_b;
    dx[i] = kernels::store<T>(kernels::SquareErrorBackward{}(slope, kernels::load(a[i]), other));
  }
}

template <class T>
void loop(std::int64_t n, const std::array<std::byte*, 4>& at, const std::array<std::int64_t, 4>& steps,
          const double* target) {
  constexpr std::int64_t kSize = sizeof(T);
  const bool one_b = target != nullptr || steps[3] == 0;
  if (steps[0] == kSize && steps[2] == kSize && (steps[1] == kSize || steps[1] == 0) && (one_b || steps[3] == kSize)) {
    if (steps[1] == 0) return one_b ? dense_loop<T, 0, 0>(n, at, target) : dense_loop<T, 0, 1>(n, at, target);
    return one_b ? dense_loop<T, 1, 0>(n, at, target) : dense_loop<T, 1, 1>(n, at, target);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    dense_loop<T, 0, 0>(1, {at[0] + i * steps[0], at[1] + i * steps[1], at[2] + i * steps[2], at[3] + i * steps[3]},
                        target);
  }
}

UnaryTable square_error_scalar_table() { return numeric_unary_table<kernels::SquareError>(); }
SquareErrorTable square_error_backward_table() { return {loop<float>, loop<double>, loop<float16>, loop<bfloat16>}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(square_error_scalar_table);
HWY_EXPORT(square_error_backward_table);

namespace {

// b: the fourth operand, or any view of that shape beside a target.
void run_backward(const KernelContext& context, const TensorView& b, const double* target) {
  static const SquareErrorTable table = HWY_DYNAMIC_DISPATCH(square_error_backward_table)();
  const TensorView& dx = context.out();
  const SquareErrorLoop run = table[static_cast<std::size_t>(dx.dtype)];
  FERRY_CHECK(run != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dx.dtype));
  const auto walk = make_walk<4>({&dx, &context.in(0), &context.in(1), &b});
  const auto steps = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 4>& at) { run(n, at, steps, target); });
}

}  // namespace

void square_error_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(square_error_scalar_table)();
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

void square_error_backward(const KernelContext& context) { run_backward(context, context.in(2), nullptr); }

void square_error_scalar_backward(const KernelContext& context) {
  run_backward(context, context.out(), &context.attributes.as<ops::ScalarAttributes>().value);
}

}  // namespace ferry::cpu_backend
#endif
