#include "src/backends/cpu/convolution.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/kernel_list.h"

namespace ferry::cpu_backend {
namespace {

// y += bias [O] along the channels.
void add_bias(const KernelContext& context, const TensorView& bias, const TensorView& y) {
  TensorView repeated = bias;
  if (bias.dtype != y.dtype) {
    repeated.dtype = y.dtype;
    repeated.data = dnn::work_buffer(dnn::Buffer::operand, static_cast<std::size_t>(bias.numel() * size_of(y.dtype)));
    convert(context.op, bias, repeated);
  }
  repeated.shape = y.shape;
  repeated.strides = {0, 1, 0, 0};
  const TensorView inputs[] = {y, repeated};
  add({.op = context.op, .inputs = inputs, .outputs = std::span(&y, 1), .attributes = context.attributes});
}

}  // namespace

void conv_transpose2d(const KernelContext& context) {
  const TensorView& y = context.out();
  if (y.numel() == 0) return;
  conv2d_backward_input({.op = context.op,
                         .inputs = context.inputs.first(2),
                         .outputs = context.outputs,
                         .attributes = context.attributes});
  if (context.has_input(2)) add_bias(context, context.in(2), y);
}

}  // namespace ferry::cpu_backend
