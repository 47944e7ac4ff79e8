#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_unary.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/unary.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

UnaryTable neg_table() { return numeric_unary_table<kernels::Neg>(); }
UnaryTable abs_table() { return numeric_unary_table<kernels::Abs>(); }
UnaryTable square_table() { return numeric_unary_table<kernels::Square>(); }
UnaryTable relu_table() { return numeric_unary_table<kernels::Relu>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(neg_table);
HWY_EXPORT(abs_table);
HWY_EXPORT(square_table);
HWY_EXPORT(relu_table);

void neg(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(neg_table)();
  run_unary(context, table);
}

void abs(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(abs_table)();
  run_unary(context, table);
}

void square(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(square_table)();
  run_unary(context, table);
}

void relu(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(relu_table)();
  run_unary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
