// Walks the graph backwards.
#include <algorithm>
#include <queue>

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/scope.h>
#include "placement/placement.h"
#include "src/autograd/node.h"
#include "src/base/check.h"
#include "src/ops/row_sparse.h"
#include "src/ops/schemas.h"
#include "src/runtime/autocast.h"
#include "src/runtime/phase.h"
#include "src/runtime/restored_scope.h"

namespace ferry::autograd {
namespace {

// A dense gradient nobody else can see may be added to in place.
bool is_exclusive(const Tensor& tensor) {
  return tensor.shared_impl().use_count() == 1 && tensor.impl()->storage.use_count() == 1 &&
         tensor.impl()->is_contiguous();
}

// A gradient for a leaf to keep: its owner may write to it in place, which must change no other tensor and no element
// twice.
ops::Gradient owned(const ops::Gradient& gradient, std::source_location where) {
  const Tensor& dense = gradient.dense;
  if (gradient.sparse != nullptr) return gradient;
  const bool sole = dense.shared_impl().use_count() == 1 && dense.impl()->storage.use_count() == 1;
  if (sole && is_dense(dense.shape(), dense.strides())) return gradient;
  const placement::InheritedPlacement here(dense.device());
  return ops::copy_dense(dense, dense.dtype(), where);
}

struct Later {
  bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
};

class Backward {
 public:
  Backward(BackwardOptions options, std::source_location where)
      : options_(options), where_(where), first_replayed_(next_sequence()) {}
  // Leaves no gradient behind in nodes that an error kept from running.
  ~Backward() {
    for (const std::shared_ptr<Node>& node : owned_) {
      node->pending.clear();
      node->queued = false;
    }
  }

  void deliver(const Edge& edge, const ops::Gradient& gradient) {
    if (edge.leaf != nullptr) {
      Meta& meta = *meta_of(*edge.leaf);
      meta.gradient =
          meta.gradient.defined() ? accumulated(std::move(meta.gradient), gradient, where_) : owned(gradient, where_);
      return;
    }
    Node& node = *edge.node;
    node.pending.resize(node.output_count);
    ops::Gradient& slot = node.pending[edge.output];
    slot = accumulated(std::move(slot), gradient, where_);
    if (node.queued) return;
    node.queued = true;
    owned_.push_back(edge.node);
    queue_.push(&node);
  }

  void run() {
    while (!queue_.empty()) {
      Node& node = *queue_.top();
      queue_.pop();
      step(node);
    }
  }

 private:
  void step(Node& node) {
    FERRY_CHECK(
        !node.released, InvalidArgument,
        "backward: the graph through {} ({}:{}) was released by an earlier backward; pass retain_graph to keep it",
        node.call.schema->name, node.call.where.file_name(), node.call.where.line());
    const placement::InheritedPlacement here(node.device);
    const RestoredScope scope(node.scope);
    std::vector<Tensor> output_gradients = take_pending(node);
    if (node.replay != nullptr) return replay(node, output_gradients);
    std::vector<ops::Gradient> results(node.call.inputs.size());
    ops::GradientContext context(node.call, output_gradients, results);
    try {
      if (std::ranges::any_of(output_gradients, &Tensor::defined)) node.call.schema->gradient(context);
    } catch (Error& error) {
      error.locate(node.call.schema->name, node.call.where);
      throw;
    }
    output_gradients.clear();
    if (gives_up(node)) release(node);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.edges[i] && results[i].defined()) deliver(node.edges[i], results[i]);
      results[i] = {};
    }
  }

  // Goes on in the graph of a region that is computed again: its nodes come before all that wait.
  void replay(Node& node, std::span<const Tensor> output_gradients) {
    try {
      const std::vector<Tensor> outputs = node.replay->run(node.edges);
      check_replayed(node, outputs, output_gradients);
      if (gives_up(node)) release(node);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Edge edge = output_gradients[i].defined() ? edge_to(outputs[i]) : Edge{};
        if (edge) deliver(edge, output_gradients[i]);
      }
    } catch (Error& error) {
      error.locate(node.call.schema->name, node.call.where);
      throw;
    }
  }

  static void check_replayed(const Node& node, std::span<const Tensor> outputs, std::span<const Tensor> gradients) {
    FERRY_CHECK(outputs.size() == node.output_count, InvalidArgument,
                "backward of checkpoint: the region gave {} results, and {} when it was computed again",
                node.output_count, outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined()) continue;
      FERRY_CHECK(outputs[i].defined() && outputs[i].shape() == gradients[i].shape() &&
                      outputs[i].dtype() == gradients[i].dtype(),
                  InvalidArgument,
                  "backward of checkpoint: result {} is {}, but its gradient {}: the region computed {}", i,
                  describe(outputs[i]), describe(gradients[i]), "something else when it was called again");
    }
  }

  // The gradients of a node's outputs, dense.
  static std::vector<Tensor> take_pending(Node& node) {
    std::vector<Tensor> output_gradients(node.output_count);
    for (std::size_t i = 0; i < node.pending.size(); ++i) {
      output_gradients[i] =
          node.pending[i].sparse != nullptr ? node.pending[i].sparse->dense(node.call.where) : node.pending[i].dense;
    }
    node.pending.clear();
    return output_gradients;
  }

  // A replayed region's nodes are made anew by the next backward.
  bool gives_up(const Node& node) const { return !options_.retain_graph || node.sequence > first_replayed_; }

  static void release(Node& node) {
    node.released = !node.saves_nothing;
    node.replay.reset();
    for (ops::CallRecord::Input& input : node.call.inputs) input.saved = {};
    node.call.outputs.clear();
  }

  BackwardOptions options_;
  std::source_location where_;
  std::uint64_t first_replayed_;  // nodes after it were made during this backward
  std::priority_queue<Node*, std::vector<Node*>, Later> queue_;
  std::vector<std::shared_ptr<Node>> owned_;
};

}  // namespace

ops::Gradient accumulated(ops::Gradient&& a, const ops::Gradient& b, std::source_location where) {
  if (!a.defined()) return b;
  if (a.sparse != nullptr && b.sparse != nullptr) return ops::concatenated(*a.sparse, *b.sparse, where);
  if (a.sparse != nullptr) {
    const placement::InheritedPlacement here(b.dense.device());
    const Tensor sum = mul(b.dense, 1, where);
    ops::scatter_add_rows(sum, *a.sparse, where);
    return sum;
  }
  if (b.sparse != nullptr) {
    const placement::InheritedPlacement here(a.dense.device());
    const Tensor sum = is_exclusive(a.dense) ? a.dense : mul(a.dense, 1, where);
    ops::scatter_add_rows(sum, *b.sparse, where);
    return sum;
  }
  if (is_exclusive(a.dense)) return a.dense.add_(b.dense, where);
  const placement::InheritedPlacement here(a.dense.device());
  return add(a.dense, b.dense, where);
}

}  // namespace ferry::autograd

namespace ferry {

void Tensor::backward(const Tensor& gradient, BackwardOptions options, Where where) const try {
  FERRY_CHECK(defined() && requires_grad(), InvalidArgument,
              "backward: {} does not depend on any tensor that requires grad", defined() ? name() : "undefined tensor");
  FERRY_CHECK(gradient.defined() || numel() == 1, ShapeError,
              "backward: '{}' has shape {}; only a tensor of one element starts without a gradient", name(),
              to_string(shape()));
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::backward);
  const RestoredAutocast types_of_forward(nullptr);
  Tensor start = gradient;
  if (!start.defined()) {
    const placement::InheritedPlacement here(device());
    start = ones_like(*this, where);
  }
  FERRY_CHECK(start.shape() == shape() && start.dtype() == dtype(), ShapeError,
              "backward: the gradient {} does not fit '{}', {}", describe(start), name(), describe(*this));
  const autograd::Meta& meta = *autograd::meta_of(*impl_);
  autograd::Backward backward(options, where);
  if (meta.node != nullptr) {
    backward.deliver({meta.node, meta.output, nullptr}, start);
  } else {
    backward.deliver({nullptr, 0, impl_}, start);
  }
  backward.run();
} catch (Error& error) {
  error.locate("backward", where);
  throw;
}

}  // namespace ferry
