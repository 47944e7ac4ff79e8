// pad and flip.
#include <algorithm>
#include <limits>

#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/indexing.h"
#include "src/ops/invoke.h"
#include "src/ops/movement.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

// Most elements that may be added on one side of an axis.
std::int64_t longest_border(PadMode mode, std::int64_t extent) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  switch (mode) {
    case PadMode::reflect:
      return std::max<std::int64_t>(0, extent - 1);
    case PadMode::replicate:
      return extent == 0 ? 0 : kMost;
    case PadMode::constant:
      break;
  }
  return kMost;
}

void infer_pad(InferContext& context) {
  context.require_given(0);
  const auto& a = context.attributes.as<PadAttributes>();
  Shape y = context.shape(0);
  for (int i = 0; i < y.rank(); ++i) {
    const std::int64_t longest = longest_border(a.mode, y[i]);
    if (a.begins[i] < 0 || a.ends[i] < 0 || a.begins[i] > longest || a.ends[i] > longest) {
      context.fail_shape(0, fmt::format("axis {} cannot be padded by {} and {}; each may be 0 to {}", i, a.begins[i],
                                        a.ends[i], longest));
    }
    y[i] += a.begins[i] + a.ends[i];
  }
  context.add_output(y, context.dtype(0), movement_strides(context.in(0), y));
}

void infer_pad_backward(InferContext& context) {
  const Shape& x = context.attributes.as<PadAttributes>().result;
  context.add_output(x, context.dtype(0), movement_strides(context.in(0), x));
}

void gradient_pad(GradientContext& context) {
  PadAttributes attributes = context.attributes<PadAttributes>();
  const Shape& x = context.shape(0);
  if (attributes.mode != PadMode::constant) {
    attributes.result = x;
    context.set(0, invoke(kPadBackward, {&context.dy()}, attributes, context.where()));
    return;
  }
  std::vector<int> axes;
  std::vector<std::int64_t> starts, ends;
  for (int i = 0; i < x.rank(); ++i) {
    axes.push_back(i);
    starts.push_back(attributes.begins[i]);
    ends.push_back(attributes.begins[i] + x[i]);
  }
  context.set(0, slice(context.dy(), axes, starts, ends, {}, context.where()));
}

void infer_flip(InferContext& context) {
  const Shape& shape = context.shape(0);
  context.add_output(shape, context.dtype(0), movement_strides(context.in(0), shape));
}

void gradient_flip(GradientContext& context) {
  context.set(0, invoke(kFlip, {&context.dy()}, context.attributes<SliceAttributes>(), context.where()));
}

}  // namespace

const OpSchema kPad{.name = "pad",
                    .op_class = OpClass::copy,
                    .arguments = {"x"},
                    .infer = infer_pad,
                    .gradient = gradient_pad,
                    .autocast = AutocastRule::as_is};
const OpSchema kPadBackward{
    .name = "pad_backward", .op_class = OpClass::copy, .arguments = {"dy"}, .infer = infer_pad_backward};
const OpSchema kFlip{.name = "flip",
                     .op_class = OpClass::copy,
                     .arguments = {"x"},
                     .kernel = "slice",
                     .infer = infer_flip,
                     .gradient = gradient_flip,
                     .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& begins, const std::vector<std::int64_t>& ends,
           const PadOptions& options, Where where) {
  ops::located("pad", x, where, [&] {
    const auto rank = static_cast<std::size_t>(x.rank());
    FERRY_CHECK(begins.size() == rank && ends.size() == rank, InvalidArgument,
                "pad: {} begins and {} ends for {}; it needs one each for every axis", begins.size(), ends.size(),
                describe(x));
  });
  const ops::PadAttributes attributes{Dims(std::span<const std::int64_t>(begins)),
                                      Dims(std::span<const std::int64_t>(ends)), options.mode, options.value};
  return ops::invoke(ops::kPad, {&x}, attributes, where);
}

Tensor flip(const Tensor& x, const std::vector<int>& axes, Where where) {
  const ops::SliceAttributes attributes = ops::located("flip", x, where, [&] {
    ops::SliceAttributes reversed{Dims::filled(x.rank(), 0), Dims::filled(x.rank(), 1)};
    for (const int axis : axes) {
      const int wrapped = ops::wrap_axis("flip", axis, x.rank());
      FERRY_CHECK(reversed.steps[wrapped] == 1, InvalidArgument, "flip: axis {} stands twice", axis);
      reversed.steps[wrapped] = -1;
      reversed.starts[wrapped] = x.shape()[wrapped] - 1;
    }
    return reversed;
  });
  return ops::invoke(ops::kFlip, {&x}, attributes, where);
}

}  // namespace ferry
