#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_scalar.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/unary.h"
#include "src/ops/attributes.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

UnaryTable add_scalar_table() { return numeric_unary_table<kernels::Add>(); }
UnaryTable mul_scalar_table() { return numeric_unary_table<kernels::Mul>(); }
UnaryTable rsub_scalar_table() { return numeric_unary_table<kernels::Reversed<kernels::Sub>>(); }
UnaryTable rdiv_scalar_table() { return numeric_unary_table<kernels::Reversed<kernels::Div>>(); }
UnaryTable pow_scalar_table() { return numeric_unary_table<kernels::Pow>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(add_scalar_table);
HWY_EXPORT(mul_scalar_table);
HWY_EXPORT(rsub_scalar_table);
HWY_EXPORT(rdiv_scalar_table);
HWY_EXPORT(pow_scalar_table);

void add_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(add_scalar_table)();
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

void mul_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(mul_scalar_table)();
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

void rsub_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(rsub_scalar_table)();
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

void rdiv_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(rdiv_scalar_table)();
  check_divisor(context, context.in(0));
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

void pow_scalar(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(pow_scalar_table)();
  run_unary(context, table, context.attributes.as<ops::ScalarAttributes>().value);
}

}  // namespace ferry::cpu_backend
#endif
