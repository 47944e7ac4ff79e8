#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_comparison.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class Op>
BinaryTable any_comparison_table() {
  return comparison_table<Op, float, double, std::int32_t, std::int64_t, std::uint8_t, bool>();
}

BinaryTable equal_table() { return any_comparison_table<kernels::Equal>(); }
BinaryTable greater_table() { return any_comparison_table<kernels::Greater>(); }
BinaryTable less_table() { return any_comparison_table<kernels::Less>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(equal_table);
HWY_EXPORT(greater_table);
HWY_EXPORT(less_table);

void equal(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(equal_table)();
  run_binary(context, table);
}

void greater(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(greater_table)();
  run_binary(context, table);
}

void less(const KernelContext& context) {
  static const BinaryTable table = HWY_DYNAMIC_DISPATCH(less_table)();
  run_binary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
