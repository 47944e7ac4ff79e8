#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/binary_cross_entropy.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/half.h"
#include "src/backends/cpu/losses.h"
#include "src/backends/cpu/strided.h"
#include "src/kernels/losses.h"

#ifndef FERRY_BINARY_LOSS_LOOPS
#define FERRY_BINARY_LOSS_LOOPS
namespace ferry::cpu_backend {

template <class C>
struct BinaryLossLoops {
  void (*forward)(std::int64_t n, const C* x, const C* target, const C* weight, C* loss);
  void (*backward)(std::int64_t n, const C* dloss, const C* x, const C* target, const C* weight, C* dx);
};

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class C>
void binary_loss(std::int64_t n, const C* x, const C* target, const C* weight, C* loss) {
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) loss[i] = kernels::BinaryCrossEntropy{}(x[i], target[i], weight[i]);
}

template <class C>
void binary_loss_backward(std::int64_t n, const C* dloss, const C* x, const C* target, const C* weight, C* dx) {
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] = kernels::BinaryCrossEntropyBackward{}(dloss[i], x[i], target[i], weight[i]);
  }
}

BinaryLossLoops<float> binary_loss_f32() { return {binary_loss<float>, binary_loss_backward<float>}; }
BinaryLossLoops<double> binary_loss_f64() { return {binary_loss<double>, binary_loss_backward<double>}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(binary_loss_f32);
HWY_EXPORT(binary_loss_f64);

namespace {

template <class C>
const BinaryLossLoops<C>& loops() {
  if constexpr (std::is_same_v<C, double>) {
    static const auto chosen = HWY_DYNAMIC_DISPATCH(binary_loss_f64)();
    return chosen;
  } else {
    static const auto chosen = HWY_DYNAMIC_DISPATCH(binary_loss_f32)();
    return chosen;
  }
}

// Elements as C, side by side. Stride in bytes.
template <class C>
void read(DType dtype, std::int64_t n, const std::byte* from, std::int64_t stride, C* to) {
  if constexpr (std::is_same_v<C, float>) {
    if (is_half(dtype)) return widen_half(dtype, n, to, from, stride);
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const C*>(from + i * stride);
}

template <class C>
void write(DType dtype, std::int64_t n, const C* from, std::byte* to, std::int64_t stride) {
  if constexpr (std::is_same_v<C, float>) {
    if (is_half(dtype)) return narrow_half(dtype, n, to, from, stride);
  }
  for (std::int64_t i = 0; i < n; ++i) *reinterpret_cast<C*>(to + i * stride) = from[i];
}

// views: the result, then operands of its shape. Calls body(n, operands) with pieces of all of them as C; operand 0 is
// the result's.
template <class C, std::size_t N, class Body>
void for_each_piece(const std::array<const TensorView*, N>& views, const Body& body) {
  const auto walk = make_walk<N>(views);
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, N>& at) {
    alignas(64) C wide[N][kHalfPiece];
    for (std::int64_t begin = 0; begin < n; begin += kHalfPiece) {
      const std::int64_t count = std::min(kHalfPiece, n - begin);
      for (std::size_t i = 1; i < N; ++i) {
        read<C>(views[i]->dtype, count, at[i] + begin * strides[i], strides[i], wide[i]);
      }
      body(count, wide);
      write<C>(views[0]->dtype, count, wide[0], at[0] + begin * strides[0], strides[0]);
    }
  });
}

// The argument, or a 1 for every element.
template <class C>
TensorView weight_view(const KernelContext& context, std::size_t i, const TensorView& model) {
  static constexpr C kOne = C(1);
  if (context.has_input(i)) return context.in(i);
  TensorView view = model;
  view.data = const_cast<C*>(&kOne);  // NOLINT(cppcoreguidelines-pro-type-const-cast): read only
  view.dtype = dtype_of<C>;
  view.strides = Dims::filled(model.shape.rank(), 0);
  return view;
}

}  // namespace

void binary_cross_entropy(const KernelContext& context) {
  const TensorView &logits = context.in(0), &targets = context.in(1), &loss = context.out();
  visit_types<float, double>(context, loss.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    const TensorView weight = weight_view<C>(context, 2, logits);
    for_each_piece<C, 4>({&loss, &logits, &targets, &weight}, [](std::int64_t n, C(&at)[4][kHalfPiece]) {
      loops<C>().forward(n, at[1], at[2], at[3], at[0]);
    });
  });
}

void binary_cross_entropy_backward(const KernelContext& context) {
  const TensorView &dloss = context.in(0), &logits = context.in(1), &targets = context.in(2), &dx = context.out();
  visit_types<float, double>(context, dloss.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    const TensorView weight = weight_view<C>(context, 3, logits);
    for_each_piece<C, 5>({&dx, &dloss, &logits, &targets, &weight}, [](std::int64_t n, C(&at)[5][kHalfPiece]) {
      loops<C>().backward(n, at[1], at[2], at[3], at[4], at[0]);
    });
  });
}

}  // namespace ferry::cpu_backend
#endif
