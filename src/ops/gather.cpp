// gather and index_select.
#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/indexing.h"
#include "src/ops/invoke.h"
#include "src/ops/movement.h"

namespace ferry::ops {
namespace {

void infer_gather(InferContext& context) {
  context.require_given(0);
  context.require_integer(1);
  const Shape &x = context.shape(0), &index = context.shape(1);
  const int axis = context.attributes.as<GatherAttributes>().axis;
  if (x.rank() != index.rank()) context.fail_shapes(0, 1, "both need the same number of axes");
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis && index[i] > x[i]) context.fail_shapes(0, 1, fmt::format("the index is longer along axis {}", i));
  }
  context.add_output(index, context.dtype(0));
}

void infer_index_select(InferContext& context) {
  context.require_given(0);
  context.require_integer(1);
  context.require_rank(1, 1);
  Shape y = context.shape(0);
  y[context.attributes.as<GatherAttributes>().axis] = context.shape(1)[0];
  context.add_output(y, context.dtype(0), movement_strides(context.in(0), y));
}

void infer_backward(InferContext& context) {
  const Shape& x = context.attributes.as<GatherAttributes>().result;
  context.add_output(x, context.dtype(0), movement_strides(context.in(0), x));
}

// Of x only the picked elements are read.
double picked_bytes(const InferContext& context) {
  const OutputSpec& y = context.output();
  const double indices = static_cast<double>(context.shape(1).product() * size_of(context.dtype(1)));
  return indices + 2.0 * static_cast<double>(y.shape.product() * size_of(y.dtype));
}

double added_flops(const InferContext& context) { return static_cast<double>(context.shape(0).product()); }

template <const OpSchema& backward>
void gradient_to_picked(GradientContext& context) {
  if (!context.needs(0)) return;
  GatherAttributes attributes = context.attributes<GatherAttributes>();
  attributes.result = context.shape(0);
  context.set(0, invoke(backward, {&context.dy(), &context.input(1)}, attributes, context.where()));
}

Tensor pick(const OpSchema& schema, const Tensor& x, int axis, const Tensor& index, Where where) {
  const int wrapped = located(schema.name, x, where, [&] { return wrap_axis(schema.name, axis, x.rank()); });
  return invoke(schema, {&x, &index}, GatherAttributes{wrapped}, where);
}

}  // namespace

const OpSchema kGatherBackward{.name = "gather_backward",
                               .op_class = OpClass::gather,
                               .arguments = {"dy", "index"},
                               .infer = infer_backward,
                               .contiguous = 0b10,
                               .flops = added_flops};
const OpSchema kIndexSelectBackward{.name = "index_select_backward",
                                    .op_class = OpClass::gather,
                                    .arguments = {"dy", "indices"},
                                    .infer = infer_backward,
                                    .contiguous = 0b10,
                                    .flops = added_flops};
const OpSchema kGather{.name = "gather",
                       .op_class = OpClass::gather,
                       .arguments = {"x", "index"},
                       .infer = infer_gather,
                       .contiguous = 0b10,
                       .bytes = picked_bytes,
                       .gradient = gradient_to_picked<kGatherBackward>,
                       .saved_inputs = 0b10,
                       .autocast = AutocastRule::as_is};
const OpSchema kIndexSelect{.name = "index_select",
                            .op_class = OpClass::gather,
                            .arguments = {"x", "indices"},
                            .infer = infer_index_select,
                            .contiguous = 0b10,
                            .bytes = picked_bytes,
                            .gradient = gradient_to_picked<kIndexSelectBackward>,
                            .saved_inputs = 0b10,
                            .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor gather(const Tensor& x, int axis, const Tensor& index, Where where) {
  return ops::pick(ops::kGather, x, axis, index, where);
}

Tensor index_select(const Tensor& x, int axis, const Tensor& indices, Where where) {
  return ops::pick(ops::kIndexSelect, x, axis, indices, where);
}

}  // namespace ferry
