// Adds calls to the graph.
#include <atomic>

#include <ferry/scope.h>
#include "src/autograd/node.h"
#include "src/base/check.h"
#include "src/ops/invoke.h"

namespace ferry {
namespace autograd {
namespace {

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> sequence{0};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

// The tensor's bytes without its place in the graph, so that a node does not own itself through its output.
ops::SavedTensor save(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  const std::uint32_t version = impl.storage->version();
  if (impl.autograd == nullptr) return {tensor, version};
  return {tensor.detach(), version};
}

Edge edge_to(const Tensor& tensor) {
  const Meta* meta = meta_of(*tensor.impl());
  if (meta == nullptr || !meta->requires_grad) return {};
  if (meta->node != nullptr) return {meta->node, meta->output, nullptr};
  return {nullptr, 0, tensor.shared_impl()};
}

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

}  // namespace
}  // namespace autograd

namespace ops {

void record_in_graph(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
                     std::span<Tensor> outputs) {
  bool needed = false;
  for (const Tensor* input : inputs) needed = needed || (input->defined() && input->impl()->requires_grad());
  if (!needed) return;
  const auto node = autograd::make_node(schema, inputs, attributes, where, outputs);
  autograd::save_outputs(*node, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !is_floating(outputs[i].dtype())) continue;
    auto meta = std::make_unique<autograd::Meta>();
    meta->requires_grad = true;
    meta->node = node;
    meta->output = static_cast<std::uint32_t>(i);
    outputs[i].impl()->autograd = std::move(meta);
  }
}

void check_in_place(const OpSchema& schema, TensorPointers inputs) {
  const Tensor& target = *inputs[0];
  if (!target.defined()) return;
  bool in_graph = false;
  for (const Tensor* input : inputs) in_graph = in_graph || (input->defined() && input->impl()->requires_grad());
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
