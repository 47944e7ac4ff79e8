#include "src/backends/cpu/activations.h"
#include "src/backends/cpu/softmax_loops.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

void run_forward(const KernelContext& context,
                 void (*SoftmaxLoops::*member)(const RowBlock&, const std::byte*, std::byte*)) {
  const TensorView &x = context.in(0), &y = context.out();
  const auto loop = softmax_loops(context, x.dtype).*member;
  const std::int64_t size = size_of(x.dtype);
  for_each_block(x.shape, context.attributes.as<ops::AxisAttributes>().axis,
                 [&](const RowBlock& block, std::int64_t at, std::int64_t) {
                   loop(block, x.as<std::byte>() + at * size, y.as<std::byte>() + at * size);
                 });
}

void run_backward(const KernelContext& context,
                  void (*SoftmaxLoops::*member)(const RowBlock&, const std::byte*, const std::byte*, std::byte*)) {
  const TensorView &dy = context.in(0), &y = context.in(1), &dx = context.out();
  const auto loop = softmax_loops(context, y.dtype).*member;
  const std::int64_t size = size_of(y.dtype);
  for_each_block(y.shape, context.attributes.as<ops::AxisAttributes>().axis,
                 [&](const RowBlock& block, std::int64_t at, std::int64_t) {
                   loop(block, dy.as<std::byte>() + at * size, y.as<std::byte>() + at * size,
                        dx.as<std::byte>() + at * size);
                 });
}

}  // namespace

void softmax(const KernelContext& context) { run_forward(context, &SoftmaxLoops::softmax); }
void log_softmax(const KernelContext& context) { run_forward(context, &SoftmaxLoops::log_softmax); }
void softmax_backward(const KernelContext& context) { run_backward(context, &SoftmaxLoops::softmax_backward); }
void log_softmax_backward(const KernelContext& context) { run_backward(context, &SoftmaxLoops::log_softmax_backward); }

}  // namespace ferry::cpu_backend
