// to: a copy on another device.
#include <ferry/ops.h>
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void gradient_to(GradientContext& context) { context.set(0, context.dy().to(context.device(0), context.where())); }

}  // namespace

const OpSchema kTo{.name = "to",
                   .op_class = OpClass::copy,
                   .arguments = {"x"},
                   .gradient = gradient_to,
                   .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor Tensor::to(Device target, Where where) const { return ops::invoke_transfer(ops::kTo, *this, target, where); }

}  // namespace ferry
