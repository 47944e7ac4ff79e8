// Adds calls to the graph.
#include <atomic>
#include <iterator>

#include <ferry/scope.h>
#include "src/autograd/node.h"
#include "src/autograd/watch.h"
#include "src/base/check.h"
#include "src/ops/autocast.h"
#include "src/ops/invoke.h"
#include "src/tensor/grad_mode.h"

namespace ferry {
namespace autograd {

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> sequence{0};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

ops::SavedTensor save(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  const std::uint32_t version = impl.storage->version();
  if (impl.autograd == nullptr) return {tensor, version};
  return {tensor.detach(), version};
}

namespace {

std::shared_ptr<Node> copy_of(const Node& view, Edge edge) {
  auto node = make_cell<Node>();
  node->call = view.call;
  node->call.inputs[0].needs_gradient = static_cast<bool>(edge);
  node->edges.push_back(std::move(edge));
  node->sequence = next_sequence();
  node->device = view.device;
  node->scope = view.scope;
  node->views_root = view.views_root;
  node->output_count = view.output_count;
  return node;
}

// The views between the root and `meta`'s tensor, made once more: the root has another past now.
void renew_path(Meta& meta) {
  const std::shared_ptr<Node> before = meta.path;
  std::vector<const Node*> views = {before.get()};
  while (!views.back()->views_root) views.push_back(views.back()->edges[0].node.get());
  Edge edge = edge_to(Tensor(meta.root));
  const bool requires_grad = static_cast<bool>(edge);
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    meta.path = copy_of(**view, std::move(edge));
    const auto next = std::next(view);
    edge = {meta.path, next == views.rend() ? 0 : (*next)->edges[0].output, nullptr};
  }
  meta.requires_grad = requires_grad;
  meta.node = requires_grad ? meta.path : nullptr;
}

}  // namespace

bool is_in_graph(const TensorImpl& tensor) {
  Meta* meta = meta_of(tensor);
  if (meta == nullptr) return false;
  if (meta->root != nullptr) {
    const Meta* root = meta_of(*meta->root);
    const std::uint32_t now = root == nullptr ? 0 : root->history;
    if (now != meta->root_history) {
      renew_path(*meta);
      meta->root_history = now;
    }
  }
  return meta->requires_grad;
}

Edge edge_to(const Tensor& tensor) {
  if (!is_in_graph(*tensor.impl())) return {};
  const Meta* meta = meta_of(*tensor.impl());
  if (meta->node != nullptr) return {meta->node, meta->output, nullptr};
  return {nullptr, 0, tensor.shared_impl()};
}

namespace {

std::shared_ptr<Node> make_node(const ops::OpSchema& schema, ops::TensorPointers inputs, const Attributes& attributes,
                                std::source_location where, std::span<const Tensor> outputs) {
  auto node = make_cell<Node>();
  node->call.schema = &schema;
  node->call.attributes = attributes;
  node->call.where = where;
  node->call.inputs.resize(inputs.size());
  node->edges.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ops::CallRecord::Input& input = node->call.inputs[i];
    const Tensor& tensor = *inputs[i];
    if (!tensor.defined()) continue;
    input.shape = tensor.shape();
    input.dtype = tensor.dtype();
    input.device = tensor.device();
    input.given = true;
    node->edges[i] = edge_to(tensor);
    input.needs_gradient = static_cast<bool>(node->edges[i]);
    if (ops::has(schema.saved_inputs, i)) input.saved = save(tensor);
    // The call has overwritten what it read: backward must not take the new elements for the old ones.
    if (ops::has(schema.mutates, i)) --input.saved.version;
  }
  node->sequence = next_sequence();
  node->device = outputs[0].device();
  node->scope = Scope::path();
  node->output_count = static_cast<std::uint32_t>(outputs.size());
  return node;
}

void save_outputs(Node& node, std::span<const Tensor> outputs) {
  const ops::ArgumentMask mask = node.call.schema->saved_outputs;
  if (mask == 0) return;
  node.call.outputs.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!ops::has(mask, i) || !outputs[i].defined()) continue;
    // Never the output itself: it is about to own the node.
    node.call.outputs[i] = {outputs[i].detach(), outputs[i].impl()->storage->version()};
  }
}

// A call of a view op; a transfer, which has no kernel either, makes new bytes.
bool is_view_of(const Tensor& output, const Tensor& input) {
  return output.defined() && input.defined() && output.impl() != input.impl() &&
         output.impl()->storage == input.impl()->storage;
}

void remember_root(Meta& meta, const std::shared_ptr<Node>& node, const Tensor& base) {
  const Meta* of_base = meta_of(*base.impl());
  const bool base_is_view = of_base != nullptr && of_base->root != nullptr;
  node->views_root = !base_is_view;
  if (base_is_view && node->edges[0].node == nullptr) node->edges[0] = {of_base->path, of_base->output, nullptr};
  meta.path = node;
  meta.root = base_is_view ? of_base->root : base.shared_impl();
  const Meta* of_root = meta_of(*meta.root);
  meta.root_history = of_root == nullptr ? 0 : of_root->history;
}

}  // namespace
}  // namespace autograd

namespace ops {

void share_among_backwards(const Tensor& result) { autograd::meta_of(*result.impl())->node->saves_nothing = true; }

void record_in_graph(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
                     std::span<Tensor> outputs) {
  bool needed = false;
  for (const Tensor* input : inputs) needed = (input->defined() && autograd::is_in_graph(*input->impl())) || needed;
  if (grad_mode() == GradMode::watched) {
    if (needed) autograd::GradWatch::note(inputs);
    return;
  }
  const bool is_view = autograd::is_view_of(outputs[0], *inputs[0]);
  if (!needed && !is_view) return;
  const auto node = autograd::make_node(schema, inputs, attributes, where, outputs);
  autograd::save_outputs(*node, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !is_floating(outputs[i].dtype())) continue;
    auto meta = std::make_unique<autograd::Meta>();
    meta->requires_grad = needed;
    if (needed) meta->node = node;
    meta->output = static_cast<std::uint32_t>(i);
    if (is_view) autograd::remember_root(*meta, node, *inputs[0]);
    TensorImpl& impl = *outputs[i].impl();
    if (schema.mutates != 0) meta->history = (impl.autograd == nullptr ? 0 : autograd::meta_of(impl)->history) + 1;
    impl.autograd = std::move(meta);
  }
}

void check_in_place(const OpSchema& schema, TensorPointers inputs) {
  const Tensor& target = *inputs[0];
  if (!target.defined()) return;
  bool in_graph = false;
  for (const Tensor* input : inputs) {
    in_graph = (input->defined() && autograd::is_in_graph(*input->impl())) || in_graph;
  }
  if (!in_graph) return;
  FERRY_CHECK(!target.is_leaf() || !target.requires_grad(), InvalidArgument,
              "{}: '{}' is a leaf that requires grad; change it inside a NoGrad scope", schema.name, target.name());
  FERRY_CHECK(
      !target.impl()->is_view, InvalidArgument,
      "{}: '{}' is a view, whose base would not know the gradient; write in place inside a NoGrad scope, or use "
      "the out-of-place op",
      schema.name, target.name());
}

}  // namespace ops
}  // namespace ferry
