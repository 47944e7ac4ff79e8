#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_arithmetic.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

BinaryTable add_table() { return numeric_binary_table<kernels::Add>(); }
BinaryTable sub_table() { return numeric_binary_table<kernels::Sub>(); }
BinaryTable mul_table() { return numeric_binary_table<kernels::Mul>(); }
BinaryTable div_table() { return numeric_binary_table<kernels::Div>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(add_table);
HWY_EXPORT(sub_table);
HWY_EXPORT(mul_table);
HWY_EXPORT(div_table);

void add(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(add_table)();
  run_binary(context, table);
}

void sub(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(sub_table)();
  run_binary(context, table);
}

void mul(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(mul_table)();
  run_binary(context, table);
}

void div(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(div_table)();
  check_divisor(context, context.in(1));
  run_binary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
