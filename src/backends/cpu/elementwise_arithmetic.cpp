#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/elementwise_arithmetic.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "src/backends/cpu/simd.h"

#include "src/backends/cpu/elementwise-inl.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"
#include "src/kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class Op>
BinaryTable arithmetic_table() {
  return binary_table<Op, float, double, float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t>();
}

BinaryTable add_table() { return arithmetic_table<kernels::Add>(); }
BinaryTable sub_table() { return arithmetic_table<kernels::Sub>(); }
BinaryTable mul_table() { return arithmetic_table<kernels::Mul>(); }
BinaryTable div_table() { return arithmetic_table<kernels::Div>(); }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(add_table);
HWY_EXPORT(sub_table);
HWY_EXPORT(mul_table);
HWY_EXPORT(div_table);

namespace {

// Integer division by zero has no result: found before anything is written.
template <class T>
void check_divisor(const KernelContext& context) {
  const auto walk = make_walk<1>({&context.in(1)});
  walk_range(walk, 0, walk.count, [&](std::int64_t n, const std::array<std::byte*, 1>& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T divisor = *reinterpret_cast<const T*>(at[0] + i * walk.inner_strides()[0]);
      FERRY_CHECK(divisor != 0, InvalidArgument, "{}: the divisor {} of shape {} holds 0, which has no quotient",
                  context.op, name_of(context.in(1).dtype), to_string(context.in(1).shape));
    }
  });
}

}  // namespace

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
  switch (context.in(1).dtype) {
    case DType::i32:
      check_divisor<std::int32_t>(context);
      break;
    case DType::i64:
      check_divisor<std::int64_t>(context);
      break;
    case DType::u8:
      check_divisor<std::uint8_t>(context);
      break;
    default:
      break;
  }
  run_binary(context, table);
}

}  // namespace ferry::cpu_backend
#endif
