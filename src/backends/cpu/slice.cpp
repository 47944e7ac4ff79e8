#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/view_ops.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

// The elements of `whole` at start + i * step along each axis, for i in `shape`.
TensorView sliced(const TensorView& whole, const ops::SliceAttributes& attributes, const Shape& shape) {
  TensorView part = whole;
  part.shape = shape;
  if (shape.product() == 0) return part;
  std::int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    offset += attributes.starts[axis] * whole.strides[axis];
    part.strides[axis] = whole.strides[axis] * attributes.steps[axis];
  }
  part.data = whole.as<std::byte>() + offset * size_of(whole.dtype);
  return part;
}

}  // namespace

void slice(const KernelContext& context) {
  const TensorView& y = context.out();
  copy_view(y, sliced(context.in(0), context.attributes.as<ops::SliceAttributes>(), y.shape));
}

void slice_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &dx = context.out();
  fill_view(dx, 0);
  copy_view(sliced(dx, context.attributes.as<ops::SliceAttributes>(), dy.shape), dy);
}

void concat(const KernelContext& context) {
  const TensorView& y = context.out();
  const int axis = context.attributes.as<ops::AxisAttributes>().axis;
  std::int64_t position = 0;
  for (const TensorView& x : context.inputs) {
    TensorView part = y;
    part.shape = x.shape;
    if (x.numel() > 0) part.data = y.as<std::byte>() + position * y.strides[axis] * size_of(y.dtype);
    copy_view(part, x);
    position += x.shape[axis];
  }
}

void shape(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  for (int axis = 0; axis < x.shape.rank(); ++axis) y.as<std::int64_t>()[axis] = x.shape[axis];
}

}  // namespace ferry::cpu_backend
