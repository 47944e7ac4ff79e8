#include "src/autograd/own_gradient.h"

#include <ferry/no_grad.h>
#include "placement/placement.h"
#include "src/autograd/node.h"
#include "src/ops/schemas.h"

namespace ferry::autograd {
namespace {

bool is_alone(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  return tensor.shared_impl().use_count() == 1 && impl.storage.use_count() == 1 && is_dense(impl.shape, impl.strides);
}

Tensor copied(const Tensor& tensor, std::source_location where) {
  const placement::InheritedPlacement here(tensor.device());
  return ops::copy_dense(tensor, tensor.dtype(), where);
}

}  // namespace

Tensor own_gradient(const Tensor& leaf, bool coalesces, std::source_location where) {
  Meta* const meta = meta_of(*leaf.impl());
  if (meta == nullptr || !meta->gradient.defined()) return {};
  const NoGrad no_grad;
  ops::Gradient& gradient = meta->gradient;
  if (gradient.sparse == nullptr) {
    if (!is_alone(gradient.dense)) gradient.dense = copied(gradient.dense, where);
    return gradient.dense;
  }
  if (coalesces) {
    const placement::InheritedPlacement here(gradient.sparse->values.device());
    gradient = gradient.sparse->coalesced(where);
  } else if (gradient.sparse.use_count() > 1 || !is_alone(gradient.sparse->values)) {
    RowSparse rows = *gradient.sparse;
    rows.values = copied(rows.values, where);
    gradient = std::move(rows);
  }
  return gradient.sparse->values;
}

}  // namespace ferry::autograd
