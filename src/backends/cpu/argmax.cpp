#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/rows.h"
#include "src/kernels/functor.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

// The first of the largest; NaN is larger than any number.
template <class T>
std::int64_t first_largest(std::int64_t n, const std::byte* x, std::int64_t stride) {
  const auto at = [&](std::int64_t i) { return kernels::load(*reinterpret_cast<const T*>(x + i * stride)); };
  std::int64_t index = 0;
  auto best = at(0);
  for (std::int64_t i = 1; i < n; ++i) {
    const auto value = at(i);
    if (value > best || (value != value && best == best)) {
      best = value;
      index = i;
    }
  }
  return index;
}

}  // namespace

void argmax(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const int axis = context.attributes.as<ops::AxisAttributes>().axis;
  std::int64_t (*find)(std::int64_t, const std::byte*, std::int64_t) = nullptr;
  visit_types<float, double, float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t>(
      context, x.dtype, [&](auto tag) { find = first_largest<typename decltype(tag)::type>; });
  const std::int64_t length = x.shape[axis], stride = x.strides[axis] * size_of(x.dtype);
  for_each_row<2>({x, y}, axis, [&](const std::array<std::byte*, 2>& at) {
    *reinterpret_cast<std::int64_t*>(at[1]) = find(length, at[0], stride);
  });
}

}  // namespace ferry::cpu_backend
