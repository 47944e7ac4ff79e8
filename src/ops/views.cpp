// Views: reshape, flatten, transpose, permute, narrow, select, expand.
#include <algorithm>

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

void gradient_reshape(GradientContext& context) {
  context.set(0, reshape(context.dy(), context.shape(0), context.where()));
}

void gradient_permute(GradientContext& context) {
  const Dims& axes = context.attributes<PermuteAttributes>().axes;
  std::vector<int> inverse(static_cast<std::size_t>(axes.rank()));
  for (int i = 0; i < axes.rank(); ++i) inverse[static_cast<std::size_t>(axes[i])] = i;
  context.set(0, permute(context.dy(), inverse, context.where()));
}

void gradient_narrow(GradientContext& context) {
  context.set(0,
              slice_backward(context.dy(), context.attributes<SliceAttributes>(), context.shape(0), context.where()));
}

void gradient_expand(GradientContext& context) {
  context.set(0, sum_to(context.dy(), context.shape(0), context.where()));
}

// `requested` with its -1 worked out. Throws: ShapeError.
Shape resolved_shape(const Tensor& x, const Shape& requested) {
  Shape shape = requested;
  int open = -1;
  std::int64_t known = 1;
  bool fits = true;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && open < 0) {
      open = i;
    } else {
      fits = fits && shape[i] >= 0 && !__builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (open >= 0 && known > 0) shape[open] = x.numel() / known;
  const bool solved = open < 0 || shape[open] >= 0;
  FERRY_CHECK(fits && solved && shape.product() == x.numel(), ShapeError,
              "reshape: {} has {} elements, which do not fill shape {}", describe(x), x.numel(), to_string(requested));
  return shape;
}

// A maximal run of axes whose elements lie at one stride.
struct Run {
  std::int64_t extent, stride;
};

// x's axes joined where they can be, outermost first.
std::vector<Run> runs_of(const Shape& shape, const Strides& strides) {
  std::vector<Run> runs;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    if (!runs.empty() && runs.back().stride == strides[i] * shape[i]) {
      runs.back() = {runs.back().extent * shape[i], strides[i]};
    } else {
      runs.push_back({shape[i], strides[i]});
    }
  }
  return runs;
}

// Strides of the same storage under another shape, if there are any: axes of `shape` must split runs, never join them.
bool strides_under(const Shape& from, const Strides& from_strides, const Shape& shape, Strides& result) {
  result = contiguous_strides(shape);
  if (from.product() == 0) return true;
  std::vector<Run> runs = runs_of(from, from_strides);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    Run& run = runs.back();
    if (run.extent % shape[axis] != 0) return false;
    result[axis] = run.stride;
    run = {run.extent / shape[axis], run.stride * shape[axis]};
    if (run.extent == 1) runs.pop_back();
  }
  return true;
}

}  // namespace

const OpSchema kReshape{.name = "reshape",
                        .op_class = OpClass::metadata,
                        .arguments = {"x"},
                        .gradient = gradient_reshape,
                        .autocast = AutocastRule::as_is};
const OpSchema kPermute{.name = "permute",
                        .op_class = OpClass::metadata,
                        .arguments = {"x"},
                        .gradient = gradient_permute,
                        .autocast = AutocastRule::as_is};
const OpSchema kNarrow{.name = "narrow",
                       .op_class = OpClass::metadata,
                       .arguments = {"x"},
                       .gradient = gradient_narrow,
                       .autocast = AutocastRule::as_is};
const OpSchema kExpand{.name = "expand",
                       .op_class = OpClass::metadata,
                       .arguments = {"x"},
                       .gradient = gradient_expand,
                       .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor reshape(const Tensor& x, const Shape& shape, Where where) {
  return ops::located("reshape", x, where, [&]() -> Tensor {
    const Shape target = ops::resolved_shape(x, shape);
    if (target == x.shape()) return x;
    Strides strides;
    if (ops::strides_under(x.shape(), x.strides(), target, strides)) {
      return ops::invoke_view(ops::kReshape, x, {}, target, strides, x.impl()->offset, where);
    }
    const Tensor dense = x.contiguous(where);
    return ops::invoke_view(ops::kReshape, dense, {}, target, contiguous_strides(target), dense.impl()->offset, where);
  });
}

Tensor flatten(const Tensor& x, int first_axis, Where where) {
  return ops::located("flatten", x, where, [&]() -> Tensor {
    Shape shape;
    const int first = x.rank() == 0 ? 0 : ops::wrap_axis("flatten", first_axis, x.rank());
    for (int i = 0; i < first; ++i) shape.push_back(x.shape()[i]);
    std::int64_t rest = 1;
    for (int i = first; i < x.rank(); ++i) rest *= x.shape()[i];
    shape.push_back(rest);
    return reshape(x, shape, where);
  });
}

Tensor permute(const Tensor& x, const std::vector<int>& axes, Where where) {
  return ops::located("permute", x, where, [&]() -> Tensor {
    FERRY_CHECK(static_cast<int>(axes.size()) == x.rank(), InvalidArgument, "permute: {} axes for {}", axes.size(),
                describe(x));
    Dims order, shape, strides;
    std::uint32_t seen = 0;
    for (const int axis : axes) {
      const int wrapped = ops::wrap_axis("permute", axis, x.rank());
      FERRY_CHECK(((seen >> wrapped) & 1u) == 0, InvalidArgument, "permute: axis {} stands twice", axis);
      seen |= 1u << wrapped;
      order.push_back(wrapped);
      shape.push_back(x.shape()[wrapped]);
      strides.push_back(x.strides()[wrapped]);
    }
    return ops::invoke_view(ops::kPermute, x, ops::PermuteAttributes{order}, shape, strides, x.impl()->offset, where);
  });
}

Tensor transpose(const Tensor& x, int axis0, int axis1, Where where) {
  return ops::located("transpose", x, where, [&]() -> Tensor {
    std::vector<int> axes(static_cast<std::size_t>(x.rank()));
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
    std::swap(axes[static_cast<std::size_t>(ops::wrap_axis("transpose", axis0, x.rank()))],
              axes[static_cast<std::size_t>(ops::wrap_axis("transpose", axis1, x.rank()))]);
    return permute(x, axes, where);
  });
}

Tensor narrow(const Tensor& x, int axis, std::int64_t start, std::int64_t length, Where where) {
  return ops::located("narrow", x, where, [&]() -> Tensor {
    const int wrapped = ops::wrap_axis("narrow", axis, x.rank());
    FERRY_CHECK(start >= 0 && length >= 0 && length <= x.shape()[wrapped] - start, InvalidArgument,
                "narrow: {} elements from {} reach outside axis {} of {}", length, start, wrapped, describe(x));
    Shape shape = x.shape();
    shape[wrapped] = length;
    ops::SliceAttributes attributes{Dims::filled(x.rank(), 0), Dims::filled(x.rank(), 1)};
    attributes.starts[wrapped] = start;
    const std::int64_t offset = x.impl()->offset + start * x.strides()[wrapped];
    return ops::invoke_view(ops::kNarrow, x, attributes, shape, x.strides(), offset, where);
  });
}

Tensor select(const Tensor& x, int axis, std::int64_t index, Where where) {
  return ops::located("select", x, where, [&]() -> Tensor {
    const int wrapped = ops::wrap_axis("select", axis, x.rank());
    const std::int64_t extent = x.shape()[wrapped];
    FERRY_CHECK(index >= -extent && index < extent, InvalidArgument, "select: index {} is outside axis {} of {}", index,
                wrapped, describe(x));
    const Tensor row = narrow(x, wrapped, index < 0 ? index + extent : index, 1, where);
    Shape shape;
    for (int i = 0; i < x.rank(); ++i) {
      if (i != wrapped) shape.push_back(x.shape()[i]);
    }
    return reshape(row, shape, where);
  });
}

Tensor expand(const Tensor& x, const Shape& shape, Where where) {
  return ops::located("expand", x, where, [&]() -> Tensor {
    Shape result;
    const bool fits = ops::broadcast_shapes(x.shape(), shape, result) && result == shape;
    FERRY_CHECK(fits, ShapeError, "expand: {} does not broadcast to {}", describe(x), to_string(shape));
    contiguous_strides(shape);  // refuses what no tensor can be
    Strides strides = Dims::filled(shape.rank(), 0);
    const int lead = shape.rank() - x.rank();
    for (int i = 0; i < x.rank(); ++i) strides[lead + i] = x.shape()[i] == shape[lead + i] ? x.strides()[i] : 0;
    return ops::invoke_view(ops::kExpand, x, {}, shape, strides, x.impl()->offset, where);
  });
}

}  // namespace ferry
