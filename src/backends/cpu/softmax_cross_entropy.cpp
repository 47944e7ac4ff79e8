#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/softmax_cross_entropy.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/kernels/lanes.h"
#include "src/kernels/math.h"
#include "src/ops/attributes.h"

#ifndef FERRY_SOFTMAX_ROWS
#define FERRY_SOFTMAX_ROWS
namespace ferry::cpu_backend {

struct SoftmaxLoops {
  // The logarithm of the sum of exponentials of n logits, and the logit at `label` below it: the loss.
  void (*forward)(std::int64_t n, const std::byte* logits, std::int64_t label, std::byte* loss,
                  std::byte* log_sum) = nullptr;
  // dlogits = dloss * (softmax - one at `label`).
  void (*backward)(std::int64_t n, const std::byte* logits, std::int64_t label, const std::byte* dloss,
                   const std::byte* log_sum, std::byte* dlogits) = nullptr;
};
using SoftmaxTable = std::array<SoftmaxLoops, kDTypeCount>;

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
struct Softmax {
  using C = kernels::Compute<T>;  // also the dtype of loss and log_sum

  static void forward(std::int64_t n, const std::byte* row, std::int64_t label, std::byte* loss, std::byte* log_sum) {
    auto* const x = reinterpret_cast<const T*>(row);
    const C largest = kernels::lane_max<C>(n, [&](std::int64_t i) { return kernels::load(x[i]); });
    const C sum = kernels::lane_sum<C>(n, [&](std::int64_t i) { return kernels::exp(kernels::load(x[i]) - largest); });
    const C log = kernels::log(sum);
    *reinterpret_cast<C*>(log_sum) = largest + log;
    *reinterpret_cast<C*>(loss) = (largest - kernels::load(x[label])) + log;
  }

  static void backward(std::int64_t n, const std::byte* row, std::int64_t label, const std::byte* dloss,
                       const std::byte* log_sum, std::byte* to) {
    auto* const x = reinterpret_cast<const T*>(row);
    auto* const dx = reinterpret_cast<T*>(to);
    const C scale = *reinterpret_cast<const C*>(dloss), shift = *reinterpret_cast<const C*>(log_sum);
    const C at_label = kernels::exp(kernels::load(x[label]) - shift);
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) dx[i] = kernels::store<T>(scale * kernels::exp(kernels::load(x[i]) - shift));
    dx[label] = kernels::store<T>(scale * (at_label - C(1)));
  }
};

SoftmaxTable softmax_table() {
  SoftmaxTable table;
  table[static_cast<int>(DType::f32)] = {Softmax<float>::forward, Softmax<float>::backward};
  table[static_cast<int>(DType::f64)] = {Softmax<double>::forward, Softmax<double>::backward};
  table[static_cast<int>(DType::f16)] = {Softmax<float16>::forward, Softmax<float16>::backward};
  table[static_cast<int>(DType::bf16)] = {Softmax<bfloat16>::forward, Softmax<bfloat16>::backward};
  return table;
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(softmax_table);

namespace {

const SoftmaxLoops& loops_for(const KernelContext& context, DType dtype) {
  static const SoftmaxTable table = HWY_DYNAMIC_DISPATCH(softmax_table)();
  const SoftmaxLoops& loops = table[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loops.forward != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
  return loops;
}

std::byte* element(const TensorView& view, std::int64_t i) {
  return view.as<std::byte>() + i * view.strides[0] * size_of(view.dtype);
}

std::int64_t row_grain(std::int64_t classes) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, classes));
}

}  // namespace

void softmax_cross_entropy(const KernelContext& context) {
  const TensorView &logits = context.in(0), &labels = context.in(1), &loss = context.out(0), &log_sum = context.out(1);
  const SoftmaxLoops& loops = loops_for(context, logits.dtype);
  const std::int64_t classes = logits.shape[1];
  check_indices(context, {.name = "labels", .view = labels, .bound = classes, .into = "logits", .shape = logits.shape});
  parallel_for(logits.shape[0], row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      loops.forward(classes, element(logits, i), index_at(labels, i), element(loss, i), element(log_sum, i));
    }
  });
}

void softmax_cross_entropy_backward(const KernelContext& context) {
  const TensorView &dloss = context.in(0), &logits = context.in(1), &labels = context.in(2), &log_sum = context.in(3);
  const TensorView& dlogits = context.out();
  const SoftmaxLoops& loops = loops_for(context, logits.dtype);
  const std::int64_t classes = logits.shape[1];
  check_indices(context, {.name = "labels", .view = labels, .bound = classes, .into = "logits", .shape = logits.shape});
  parallel_for(logits.shape[0], row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      loops.backward(classes, element(logits, i), index_at(labels, i), element(dloss, i), element(log_sum, i),
                     element(dlogits, i));
    }
  });
}

}  // namespace ferry::cpu_backend
#endif
