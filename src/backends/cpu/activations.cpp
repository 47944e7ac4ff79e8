#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/activations.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/activations.h"
#include "src/backends/cpu/elementwise-inl.h"
#include "src/kernels/activations.h"
#include "src/ops/activations.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

UnaryTable gelu_table() { return unary_table<kernels::Gelu, float, double>(); }
UnaryTable gelu_tanh_table() { return unary_table<kernels::GeluTanh, float, double>(); }
UnaryTable silu_table() { return unary_table<kernels::Silu, float, double>(); }
UnaryTable leaky_relu_table() { return unary_table<kernels::LeakyRelu, float, double>(); }
BinaryTable gelu_backward_table() { return binary_table<kernels::GeluBackward, float, double>(); }
BinaryTable gelu_tanh_backward_table() { return binary_table<kernels::GeluTanhBackward, float, double>(); }
BinaryTable silu_backward_table() { return binary_table<kernels::SiluBackward, float, double>(); }
BinaryTable leaky_relu_backward_table() { return binary_table<kernels::LeakyReluBackward, float, double>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(gelu_table);
HWY_EXPORT(gelu_tanh_table);
HWY_EXPORT(silu_table);
HWY_EXPORT(leaky_relu_table);
HWY_EXPORT(gelu_backward_table);
HWY_EXPORT(gelu_tanh_backward_table);
HWY_EXPORT(silu_backward_table);
HWY_EXPORT(leaky_relu_backward_table);

namespace {

bool by_tanh(const KernelContext& context) {
  return context.attributes.as<ops::GeluAttributes>().approximation == GeluApproximation::tanh;
}
double slope_of(const KernelContext& context) { return context.attributes.as<ops::ScalarAttributes>().value; }

}  // namespace

void gelu(const KernelContext& context) {
  static const UnaryTable exact = HWY_DYNAMIC_DISPATCH(gelu_table)(),
                          approximate = HWY_DYNAMIC_DISPATCH(gelu_tanh_table)();
  run_unary(context, by_tanh(context) ? approximate : exact);
}

void gelu_backward(const KernelContext& context) {
  static const BinaryTable exact = HWY_DYNAMIC_DISPATCH(gelu_backward_table)(),
                           approximate = HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_table)();
  run_binary(context, by_tanh(context) ? approximate : exact);
}

void silu(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(silu_table)();
  run_unary(context, table);
}

void silu_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(silu_backward_table)();
  run_binary(context, table);
}

void leaky_relu(const KernelContext& context) {
  static const UnaryTable table = HWY_DYNAMIC_DISPATCH(leaky_relu_table)();
  run_unary(context, table, slope_of(context));
}

void leaky_relu_backward(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(leaky_relu_backward_table)();
  run_binary(context, table, slope_of(context));
}

}  // namespace ferry::cpu_backend
#endif
