// Tensor's autograd members, and how nodes are released.
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "placement/placement.h"
#include "src/autograd/node.h"
#include "src/base/check.h"

namespace ferry {
namespace autograd {

// Nodes whose last owner is a dying node are collected here and released one after the other: a chain of 100,000 ops
// would overflow the stack if each released the next.
Node::~Node() {
  thread_local std::vector<std::shared_ptr<Node>>* dying = nullptr;
  const auto collect = [&](std::vector<std::shared_ptr<Node>>& list) {
    for (Edge& edge : edges) {
      if (edge.node != nullptr) list.push_back(std::move(edge.node));
    }
  };
  if (dying != nullptr) {
    collect(*dying);
    return;
  }
  std::vector<std::shared_ptr<Node>> list;
  collect(list);
  if (list.empty()) return;
  dying = &list;
  while (!list.empty()) {
    std::shared_ptr<Node> next = std::move(list.back());
    list.pop_back();
    next.reset();
  }
  dying = nullptr;
}

}  // namespace autograd

Tensor& Tensor::set_requires_grad(bool value) {
  FERRY_CHECK(is_floating(dtype()), InvalidArgument,
              "set_requires_grad: '{}' is {}; only floating tensors have gradients", name(), describe(*this));
  FERRY_CHECK(value || is_leaf(), InvalidArgument,
              "set_requires_grad: '{}' is the result of an op; use detach() to leave the graph", name());
  if (value && !requires_grad()) impl_->autograd = std::make_unique<autograd::Meta>();  // cut from a view's base
  if (impl_->autograd != nullptr) impl_->autograd->requires_grad = value;
  return *this;
}

bool Tensor::requires_grad() const { return autograd::is_in_graph(*impl_); }

bool Tensor::is_leaf() const {
  autograd::is_in_graph(*impl_);
  const autograd::Meta* meta = autograd::meta_of(*impl_);
  return meta == nullptr || meta->node == nullptr;
}

bool Tensor::has_grad() const {
  const autograd::Meta* meta = autograd::meta_of(*impl_);
  return meta != nullptr && meta->gradient.defined();
}

Tensor Tensor::grad(Where where) const {
  if (!has_grad()) return {};
  const ops::Gradient& gradient = autograd::meta_of(*impl_)->gradient;
  if (gradient.sparse == nullptr) return gradient.dense;
  const placement::InheritedPlacement here(device());
  return gradient.sparse->dense(where);
}

std::optional<RowSparse> Tensor::row_sparse_grad() const {
  if (!has_grad() || autograd::meta_of(*impl_)->gradient.sparse == nullptr) return std::nullopt;
  return *autograd::meta_of(*impl_)->gradient.sparse;
}

void Tensor::zero_grad() {
  if (autograd::Meta* meta = autograd::meta_of(*impl_)) meta->gradient = {};
}

Tensor Tensor::detach() const {
  auto impl = make_view(*impl_, impl_->shape, impl_->strides, impl_->offset);
  return Tensor(std::move(impl));
}

}  // namespace ferry
