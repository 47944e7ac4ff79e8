#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_gradient.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

BinaryTable relu_backward_table() { return binary_table<kernels::ReluBackward, float, double>(); }
BinaryTable tanh_backward_table() { return binary_table<kernels::TanhBackward, float, double>(); }
BinaryTable sigmoid_backward_table() { return binary_table<kernels::SigmoidBackward, float, double>(); }
BinaryTable abs_backward_table() { return binary_table<kernels::AbsBackward, float, double>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(relu_backward_table);
HWY_EXPORT(tanh_backward_table);
HWY_EXPORT(sigmoid_backward_table);
HWY_EXPORT(abs_backward_table);

void relu_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(relu_backward_table)();
  run_binary(context, table);
}

void tanh_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(tanh_backward_table)();
  run_binary(context, table);
}

void sigmoid_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(sigmoid_backward_table)();
  run_binary(context, table);
}

void abs_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(abs_backward_table)();
  run_binary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
