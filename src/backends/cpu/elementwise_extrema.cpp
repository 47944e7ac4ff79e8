#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_extrema.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

BinaryTable maximum_table() { return numeric_binary_table<kernels::Maximum>(); }
BinaryTable minimum_table() { return numeric_binary_table<kernels::Minimum>(); }
BinaryTable square_error_table() { return numeric_binary_table<kernels::SquareError>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(maximum_table);
HWY_EXPORT(minimum_table);
HWY_EXPORT(square_error_table);

void maximum(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(maximum_table)();
  run_binary(context, table);
}

void minimum(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(minimum_table)();
  run_binary(context, table);
}

void square_error(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(square_error_table)();
  run_binary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
