#include "src/ops/gradient.h"

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {

const Tensor& GradientContext::checked(const SavedTensor& saved, std::string_view what) const {
  FERRY_CHECK(saved.tensor.defined(), InvalidArgument,
              "backward of {}: '{}' was released by an earlier backward; pass retain_graph to keep it",
              call_.schema->name, what);
  const std::uint32_t now = saved.tensor.impl()->storage->version();
  FERRY_CHECK(now == saved.version, InvalidArgument,
              "backward of {}: '{}' ({}, {}) was changed in place after the op read it (version {}, now {}); "
              "use the out-of-place op or clone it first",
              call_.schema->name, what, saved.tensor.name(), describe(saved.tensor), saved.version, now);
  return saved.tensor;
}

Tensor elementwise_gradient(const GradientContext& context, const OpSchema& backward, const OpSchema& in_place,
                            const Tensor& other, const Attributes& attributes) {
  const Tensor& dy = context.dy();
  const bool reuses = may_write_over(dy) && dy.device() == other.device() && dy.dtype() == other.dtype() &&
                      dy.strides() == other.strides() && is_dense(dy.shape(), dy.strides());
  return invoke(reuses ? in_place : backward, {&dy, &other}, attributes, context.where());
}

Tensor sum_to(const Tensor& gradient, const Shape& shape, std::source_location where) {
  if (gradient.shape() == shape) return gradient;
  const int lead = gradient.rank() - shape.rank();
  std::vector<int> axes;
  for (int i = 0; i < gradient.rank(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && gradient.shape()[i] != 1)) axes.push_back(i);
  }
  return reshape(axes.empty() ? gradient : sum(gradient, axes, true, where), shape, where);
}

}  // namespace ferry::ops
