#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/movement.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_concat(InferContext& context) {
  const int axis = context.attributes.as<AxisAttributes>().axis;
  Shape shape = context.shape(0);
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    context.require_same_dtype(0, i);
    Shape same_but_axis = context.shape(i);
    if (same_but_axis.rank() == shape.rank()) same_but_axis[axis] = context.shape(0)[axis];
    if (same_but_axis != context.shape(0)) {
      context.fail_shapes(0, i, fmt::format("shapes may differ along axis {} only", axis));
    }
    shape[axis] += context.shape(i)[axis];
    contiguous_strides(shape);  // refuses what no tensor can be, before the sum overflows
  }
  context.add_output(shape, context.dtype(0), movement_strides(context.in(0), shape));
}

void gradient_concat(GradientContext& context) {
  const int axis = context.attributes<AxisAttributes>().axis;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::int64_t extent = context.shape(i)[axis];
    if (context.needs(i)) context.set(i, slice(context.dy(), {axis}, {start}, {start + extent}, {}, context.where()));
    start += extent;
  }
}

}  // namespace

const OpSchema kConcat{.name = "concat",
                       .op_class = OpClass::copy,
                       .arguments = {"xs"},
                       .infer = infer_concat,
                       .gradient = gradient_concat,
                       .autocast = AutocastRule::widest};

}  // namespace ferry::ops

namespace ferry {

Tensor concat(const std::vector<Tensor>& xs, int axis, Where where) {
  std::vector<const Tensor*> inputs;
  const int wrapped = ops::located("concat", where, [&] {
    FERRY_CHECK(!xs.empty(), InvalidArgument, "concat: needs at least one tensor");
    for (const Tensor& x : xs) {
      FERRY_CHECK(x.defined(), InvalidArgument, "concat: xs[{}] is an undefined tensor", inputs.size());
      inputs.push_back(&x);
    }
    return ops::wrap_axis("concat", axis, xs[0].rank());
  });
  Tensor y;
  const ops::AxisAttributes attributes{wrapped};
  ops::invoke(ops::kConcat, inputs, attributes, where, {&y, 1});
  return y;
}

}  // namespace ferry
