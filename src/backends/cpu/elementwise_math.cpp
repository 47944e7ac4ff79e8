#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_math.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/unary.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

UnaryTable exp_table() { return unary_table<kernels::Exp, float, double>(); }
UnaryTable log_table() { return unary_table<kernels::Log, float, double>(); }
UnaryTable sqrt_table() { return unary_table<kernels::Sqrt, float, double>(); }
UnaryTable tanh_table() { return unary_table<kernels::Tanh, float, double>(); }
UnaryTable sigmoid_table() { return unary_table<kernels::Sigmoid, float, double>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(exp_table);
HWY_EXPORT(log_table);
HWY_EXPORT(sqrt_table);
HWY_EXPORT(tanh_table);
HWY_EXPORT(sigmoid_table);

void exp(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(exp_table)();
  run_unary(context, table);
}

void log(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(log_table)();
  run_unary(context, table);
}

void sqrt(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(sqrt_table)();
  run_unary(context, table);
}

void tanh(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(tanh_table)();
  run_unary(context, table);
}

void sigmoid(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(sigmoid_table)();
  run_unary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
