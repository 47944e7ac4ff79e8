#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/where.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <cstring>

#include "src/backends/cpu/indexing.h"
#include "src/backends/cpu/strided.h"
#include "src/backends/cpu/view_ops.h"
#include "src/base/check.h"
#include "src/ops/indexing.h"

#ifndef FERRY_WHERE_LOOPS
#define FERRY_WHERE_LOOPS
namespace ferry::cpu_backend {

// y[i] = condition[i] ? a[i] : b[i] for elements of one size; strides in elements. A stride of 0 repeats an element.
struct ChoiceRow {
  std::int64_t n;
  std::byte* y;
  const bool* condition;
  const std::byte *a, *b;
  std::int64_t y_stride, condition_stride, a_stride, b_stride;
};
using ChoiceLoop = void (*)(const ChoiceRow&);
using ChoiceTable = std::array<ChoiceLoop, 4>;  // by the logarithm of the element's size

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// By a mask of all bits, for what a branch or a conditional load does not vectorise.
template <class Word>
Word chosen(std::uint8_t condition, Word a, Word b) {
  const Word mask = static_cast<Word>(-static_cast<Word>(condition));
  return static_cast<Word>((a & mask) | (b & static_cast<Word>(~mask)));
}

template <class Word>
void choose_row(const ChoiceRow& r) {
  auto* const y = reinterpret_cast<Word*>(r.y);
  auto* const a = reinterpret_cast<const Word*>(r.a);
  auto* const b = reinterpret_cast<const Word*>(r.b);
  auto* const condition = reinterpret_cast<const std::uint8_t*>(r.condition);
  const std::int64_t n = r.n;
  const bool dense = r.y_stride == 1 && r.condition_stride == 1;
  if (dense && r.a_stride == 1 && r.b_stride == 1) {
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = chosen(condition[i], a[i], b[i]);
  } else if (dense && r.a_stride == 0 && r.b_stride == 1) {
    const Word value = *a;
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = chosen(condition[i], value, b[i]);
  } else if (dense && r.a_stride == 1 && r.b_stride == 0) {
    const Word value = *b;
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = chosen(condition[i], a[i], value);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i * r.y_stride] = chosen(condition[i * r.condition_stride], a[i * r.a_stride], b[i * r.b_stride]);
    }
  }
}

ChoiceTable choice_table() {
  return {choose_row<std::uint8_t>, choose_row<std::uint16_t>, choose_row<std::uint32_t>, choose_row<std::uint64_t>};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(choice_table);

namespace {

ChoiceLoop loop_for(DType dtype) {
  static const ChoiceTable table = HWY_DYNAMIC_DISPATCH(choice_table)();
  switch (size_of(dtype)) {
    case 1:
      return table[0];
    case 2:
      return table[1];
    case 4:
      return table[2];
    default:
      return table[3];
  }
}

void choose(const TensorView& y, const TensorView& condition, const TensorView& a, const TensorView& b) {
  const ChoiceLoop loop = loop_for(y.dtype);
  const std::int64_t size = size_of(y.dtype);
  const auto walk = make_walk<4>({&y, &condition, &a, &b});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 4>& at) {
    loop({.n = n,
          .y = at[0],
          .condition = reinterpret_cast<const bool*>(at[1]),
          .a = at[2],
          .b = at[3],
          .y_stride = strides[0] / size,
          .condition_stride = strides[1],
          .a_stride = strides[2] / size,
          .b_stride = strides[3] / size});
  });
}

}  // namespace

void where(const KernelContext& context) { choose(context.out(), context.in(0), context.in(1), context.in(2)); }

void masked_fill(const KernelContext& context) {
  const TensorView &x = context.in(0), &mask = context.in(1), &y = context.out();
  const auto& attributes = context.attributes.as<ops::MaskedFillAttributes>();
  alignas(8) std::byte element[8];
  TensorView value{.data = element, .dtype = y.dtype, .given = true, .shape = {}, .strides = {}};
  fill_view(value, attributes.value);
  value.shape = y.shape;
  value.strides = Dims::filled(y.shape.rank(), 0);
  attributes.filled ? choose(y, mask, value, x) : choose(y, mask, x, value);
}

}  // namespace ferry::cpu_backend
#endif
