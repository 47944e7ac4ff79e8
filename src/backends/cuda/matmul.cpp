// matmul and linear.
#include "src/backends/cuda/gemm.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/views.h"

namespace ferry::cuda_backend {
namespace {

void matmul(const KernelContext& context) { gemm(context, context.in(0), context.in(1), context.out()); }

void linear(const KernelContext& context) {
  const TensorView &x = context.in(0), &weight = context.in(1), &y = context.out();
  if (!context.has_input(2)) return gemm(context, x, transposed(weight), y);
  // The product is added to the bias, which costs no pass of its own over y but the one that writes it.
  TensorView bias = context.in(2);
  bias.shape = y.shape;
  bias.strides = {0, context.in(2).strides[0]};
  copy_view(context, y, bias);
  gemm(context, x, transposed(weight), y, 1, 1);
}

constexpr KernelEntry kEntries[] = {{"matmul", matmul}, {"linear", linear}};

}  // namespace

std::span<const KernelEntry> matmul_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
