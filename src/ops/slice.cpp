// slice and crop: copies of a rectangle of x; slice_backward puts one into zeros.
#include <algorithm>

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/movement.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

// A slice as the caller states it; ends and axes count as in Python.
struct SliceRequest {
  Dims axes, starts, ends, steps;
};

// Bounds clamped to x and the shape they leave.
std::pair<SliceAttributes, Shape> resolve(const InferContext& context, const SliceRequest& request) {
  const Shape& from = context.shape(0);
  SliceAttributes resolved{Dims::filled(from.rank(), 0), Dims::filled(from.rank(), 1)};
  Shape shape = from;
  std::uint32_t seen = 0;
  for (int i = 0; i < request.axes.rank(); ++i) {
    const int axis = wrap_axis(context.schema.name, static_cast<int>(request.axes[i]), from.rank());
    FERRY_CHECK(((seen >> axis) & 1u) == 0, InvalidArgument, "{}: axis {} stands twice", context.schema.name, axis);
    seen |= 1u << axis;
    const std::int64_t extent = from[axis], step = request.steps[i];
    const auto clamped = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
    };
    const std::int64_t start = clamped(request.starts[i]), end = clamped(request.ends[i]);
    FERRY_CHECK(step > 0, InvalidArgument, "{}: step {} along axis {} is not positive", context.schema.name, step,
                axis);
    resolved.starts[axis] = start;
    resolved.steps[axis] = step;
    shape[axis] = end > start ? (end - start - 1) / step + 1 : 0;
  }
  return {resolved, shape};
}

void infer_slice(InferContext& context) {
  context.require_given(0);
  const auto& bounds = context.attributes.as<SliceBounds>();
  SliceRequest request{bounds.axes, bounds.starts, bounds.ends, bounds.steps};
  if (context.inputs.size() > 1) {
    for (const std::size_t i : {1, 2}) {
      context.require_integer(i);
      if (context.in(i).rank() != 1 || context.shape(i)[0] != bounds.axes.rank()) {
        context.fail_shape(i, fmt::format("it needs one value for each of {} axes", bounds.axes.rank()));
      }
    }
    request.starts = Dims(std::span<const std::int64_t>(context.host_values(1)));
    request.ends = Dims(std::span<const std::int64_t>(context.host_values(2)));
  }
  const auto [resolved, shape] = resolve(context, request);
  context.attributes = resolved;
  context.add_output(shape, context.dtype(0), movement_strides(context.in(0), shape));
}

void gradient_slice(GradientContext& context) {
  if (!context.needs(0)) return;
  context.set(0,
              slice_backward(context.dy(), context.attributes<SliceAttributes>(), context.shape(0), context.where()));
}

void infer_crop(InferContext& context) {
  context.require_given(0);
  const auto& request = context.attributes.as<CropBounds>();
  const Shape& from = context.shape(0);
  Shape shape = request.shape;
  if (context.inputs.size() > 1) {
    context.require_integer(1);
    context.require_rank(1, 1);
    shape = Dims(std::span<const std::int64_t>(context.host_values(1)));
  }
  const Dims offsets = request.offsets.rank() == 0 ? Dims::filled(from.rank(), 0) : request.offsets;
  bool fits = shape.rank() == from.rank() && offsets.rank() == from.rank();
  for (int i = 0; fits && i < from.rank(); ++i) {
    fits = offsets[i] >= 0 && shape[i] >= 0 && shape[i] <= from[i] - offsets[i];
  }
  if (!fits) {
    context.fail_shape(
        0, fmt::format("a crop of shape {} at offset {} is not inside", to_string(shape), to_string(offsets)));
  }
  context.attributes = SliceAttributes{offsets, Dims::filled(from.rank(), 1)};
  context.add_output(shape, context.dtype(0), movement_strides(context.in(0), shape));
}

void infer_slice_backward(InferContext& context) {
  context.require_given(0);
  const Shape& shape = context.attributes.as<SliceAttributes>().result;
  context.add_output(shape, context.dtype(0), movement_strides(context.in(0), shape));
}

void infer_shape(InferContext& context) {
  context.require_given(0);
  context.add_output({context.in(0).rank()}, DType::i64);
}

double no_bytes(const InferContext&) { return 0; }

double slice_bytes(const InferContext& context) {
  return 2.0 * static_cast<double>(context.output().shape.product() * size_of(context.output().dtype));
}

}  // namespace

const OpSchema kShape{.name = "shape",
                      .op_class = OpClass::metadata,
                      .arguments = {"x"},
                      .infer = infer_shape,
                      .metadata_inputs = 1,
                      .runs_on_cpu = true,
                      .flops = no_bytes,
                      .bytes = no_bytes};
const OpSchema kSlice{.name = "slice",
                      .op_class = OpClass::copy,
                      .arguments = {"x", "starts", "ends"},
                      .infer = infer_slice,
                      .host_inputs = 0b110,
                      .bytes = slice_bytes,
                      .gradient = gradient_slice,
                      .autocast = AutocastRule::as_is};
const OpSchema kCrop{.name = "crop",
                     .op_class = OpClass::copy,
                     .arguments = {"x", "shape"},
                     .infer = infer_crop,
                     .host_inputs = 0b10,
                     .bytes = slice_bytes,
                     .gradient = gradient_slice,
                     .autocast = AutocastRule::as_is};
const OpSchema kSliceBackward{
    .name = "slice_backward", .op_class = OpClass::copy, .arguments = {"dy"}, .infer = infer_slice_backward};

Strides movement_strides(const Tensor& x, const Shape& result) {
  const Strides& strides = x.strides();
  const bool channels_last = x.rank() == 4 && result.rank() == 4 && strides[1] < strides[3] &&
                             strides[3] <= strides[2] && strides[2] <= strides[0];
  return channels_last ? channels_last_strides(result) : contiguous_strides(result);
}

Tensor slice_backward(const Tensor& dy, const SliceAttributes& forward, const Shape& shape, Where where) {
  return invoke(kSliceBackward, {&dy}, SliceAttributes{forward.starts, forward.steps, shape}, where);
}

}  // namespace ferry::ops

namespace ferry {
namespace {

Dims dims_of(const std::vector<std::int64_t>& values) { return Dims(std::span<const std::int64_t>(values)); }
Dims dims_of(const std::vector<int>& values) {
  Dims dims;
  for (const int value : values) dims.push_back(value);
  return dims;
}

}  // namespace

Tensor shape(const Tensor& x, Where where) { return ops::invoke(ops::kShape, {&x}, {}, where); }

Tensor slice(const Tensor& x, const std::vector<int>& axes, const std::vector<std::int64_t>& starts,
             const std::vector<std::int64_t>& ends, const std::vector<std::int64_t>& steps, Where where) {
  const bool counts_agree =
      starts.size() == axes.size() && ends.size() == axes.size() && (steps.empty() || steps.size() == axes.size());
  const auto bounds = ops::located("slice", where, [&] {
    FERRY_CHECK(counts_agree, InvalidArgument, "slice: {} axes, {} starts, {} ends and {} steps; counts must agree",
                axes.size(), starts.size(), ends.size(), steps.size());
    const Dims step = steps.empty() ? Dims::filled(static_cast<int>(axes.size()), 1) : dims_of(steps);
    return ops::SliceBounds{dims_of(axes), dims_of(starts), dims_of(ends), step};
  });
  return ops::invoke(ops::kSlice, {&x}, bounds, where);
}

Tensor slice(const Tensor& x, const std::vector<int>& axes, const Tensor& starts, const Tensor& ends, Where where) {
  const auto bounds = ops::located("slice", where, [&] {
    return ops::SliceBounds{dims_of(axes), {}, {}, Dims::filled(static_cast<int>(axes.size()), 1)};
  });
  return ops::invoke(ops::kSlice, {&x, &starts, &ends}, bounds, where);
}

Tensor crop(const Tensor& x, const Shape& shape, const Shape& offsets, Where where) {
  return ops::invoke(ops::kCrop, {&x}, ops::CropBounds{shape, offsets}, where);
}

Tensor crop(const Tensor& x, const Tensor& shape, const Shape& offsets, Where where) {
  return ops::invoke(ops::kCrop, {&x, &shape}, ops::CropBounds{{}, offsets}, where);
}

}  // namespace ferry
