// pad grows x axis by axis: the border of an axis is made of slabs that earlier axes have completed. Its backward goes
// the other way and adds each slab to the one that it was made from.
#include <algorithm>

#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/half.h"
#include "src/backends/cpu/indexing.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/view_ops.h"
#include "src/ops/indexing.h"

namespace ferry::cpu_backend {
namespace {

using ops::PadAttributes;

TensorView part(TensorView whole, int axis, std::int64_t start, std::int64_t length) {
  whole.data = whole.as<std::byte>() + start * whole.strides[axis] * size_of(whole.dtype);
  whole.shape[axis] = length;
  return whole;
}

// One axis of a padding: positions [begin, begin + extent) are x's.
struct PaddedAxis {
  int axis;
  std::int64_t begin, extent, length;

  // The position of x that `at` in the border repeats.
  std::int64_t source(PadMode mode, std::int64_t at) const {
    const std::int64_t offset = at - begin, last = extent - 1;
    if (mode == PadMode::replicate) return begin + std::clamp<std::int64_t>(offset, 0, last);
    return begin + (offset < 0 ? -offset : 2 * last - offset);
  }
};

PaddedAxis axis_of(const PadAttributes& a, const Shape& x, int axis) {
  return {axis, a.begins[axis], x[axis], a.begins[axis] + x[axis] + a.ends[axis]};
}

// Calls body(border slab, slab that it repeats) for the border of one axis, front to back. `band` has the whole axis.
template <class Body>
void for_each_slab(const TensorView& band, const PaddedAxis& p, PadMode mode, const Body& body) {
  for (std::int64_t at = 0; at < p.length; ++at) {
    if (at == p.begin) at += p.extent;
    if (at < p.length) body(part(band, p.axis, at, 1), part(band, p.axis, p.source(mode, at), 1));
  }
}

// What of `padded` is x's along axes [first, last).
TensorView inside(TensorView padded, const PadAttributes& a, const Shape& x, int first, int last) {
  for (int axis = first; axis < last; ++axis) padded = part(padded, axis, a.begins[axis], x[axis]);
  return padded;
}

void add_to(std::string_view op, const TensorView& to, const TensorView& x, const Attributes& attributes) {
  const TensorView inputs[] = {to, x};
  add({.op = op, .inputs = inputs, .outputs = std::span(&to, 1), .attributes = attributes});
}

}  // namespace

void pad(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const auto& a = context.attributes.as<PadAttributes>();
  const int rank = x.shape.rank();
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill_view(y, a.value);
  copy_view(inside(y, a, x.shape, 0, rank), x);
  for (int axis = 0; axis < rank; ++axis) {
    const PaddedAxis p = axis_of(a, x.shape, axis);
    const TensorView band = inside(y, a, x.shape, axis + 1, rank);
    if (a.mode == PadMode::constant) {
      fill_view(part(band, axis, 0, p.begin), a.value);
      fill_view(part(band, axis, p.begin + p.extent, a.ends[axis]), a.value);
    } else {
      for_each_slab(band, p, a.mode, [](const TensorView& slab, const TensorView& from) { copy_view(slab, from); });
    }
  }
}

void pad_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &dx = context.out();
  const auto& a = context.attributes.as<PadAttributes>();
  const int rank = dx.shape.rank();
  if (dx.numel() == 0) return;
  TensorView sums = dy;
  sums.dtype = is_half(dy.dtype) ? DType::f32 : dy.dtype;
  const bool channels_last = rank == 4 && is_channels_last(dy);
  sums.strides = channels_last ? channels_last_strides(dy.shape) : contiguous_strides(dy.shape);
  sums.data = dnn::work_buffer(dnn::Buffer::operand, static_cast<std::size_t>(dy.numel() * size_of(sums.dtype)));
  convert(context.op, dy, sums);
  for (int axis = rank - 1; axis >= 0; --axis) {
    const TensorView band = inside(sums, a, dx.shape, axis + 1, rank);
    for_each_slab(band, axis_of(a, dx.shape, axis), a.mode, [&](const TensorView& slab, const TensorView& source) {
      add_to(context.op, source, slab, context.attributes);
    });
  }
  convert(context.op, inside(sums, a, dx.shape, 0, rank), dx);
}

}  // namespace ferry::cpu_backend
