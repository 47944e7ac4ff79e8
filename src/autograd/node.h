// The graph that backward walks: a Node for each recorded call, with an edge to where each input came from.
//
// Ownership: a tensor owns the node that made it, a node owns the nodes of its inputs; a leaf is owned by its node's
// edge. Long chains are released without recursion.
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <ferry/device.h>
#include "src/ops/gradient.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::autograd {

struct Node;

// Where a gradient goes: to output `output` of a node, or into a leaf's gradient; neither: nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::uint32_t output = 0;
  std::shared_ptr<TensorImpl> leaf;
  explicit operator bool() const { return node != nullptr || leaf != nullptr; }
};

// A call whose graph is not kept: backward makes it anew and goes on in there (src/autograd/checkpoint.cpp).
class Replay {
 public:
  virtual ~Replay() = default;
  // The results, with the graph that leads to them from what `edges` point to.
  virtual std::vector<Tensor> run(std::span<const Edge> edges) const = 0;
};

struct Node {
  ops::CallRecord call;
  std::vector<Edge> edges;     // by input
  std::uint64_t sequence = 0;  // later calls have larger numbers: a topological order
  Device device;               // where the forward op ran
  std::string scope;
  bool released = false;       // saved tensors were given up by a backward
  bool saves_nothing = false;  // may run in any number of backwards
  bool views_root = false;     // a view of a tensor that is no view itself
  std::unique_ptr<Replay> replay;
  // What is known of each output, for the zero gradients of outputs that nothing flowed to.
  std::uint32_t output_count = 0;

  // The engine's, during one backward.
  std::vector<ops::Gradient> pending;
  bool queued = false;

  ~Node();
};

struct Meta final : AutogradMeta {
  std::shared_ptr<Node> node;  // null for a leaf
  std::uint32_t output = 0;
  ops::Gradient gradient;  // leaves only

  std::uint32_t history = 0;  // writes in place that changed `node`
  // A view made while the graph was on knows what it shows: after a write to that, backward goes through the write.
  std::shared_ptr<TensorImpl> root;  // the tensor at the end of the views; null: no view, or cut from its base
  std::uint32_t root_history = 0;    // root's, when `path` was made
  std::shared_ptr<Node> path;  // this view's call, whose first edge leads on to root; `node` when that requires grad
};

inline Meta* meta_of(const TensorImpl& tensor) { return static_cast<Meta*>(tensor.autograd.get()); }

// Whether the graph leads to a leaf from here. All that looks at a tensor's place in the graph asks this first: it
// brings a view whose base was written in place up to date.
bool is_in_graph(const TensorImpl& tensor);
Edge edge_to(const Tensor& tensor);
// The tensor's bytes without its place in the graph, so that a node does not own itself through its output.
ops::SavedTensor save(const Tensor& tensor);
// Larger than all before.
std::uint64_t next_sequence();

// a + b in the fitting form: dense, row-sparse, or a dense sum of both. `a` is as it was when an error leaves.
ops::Gradient accumulated(ops::Gradient&& a, const ops::Gradient& b, std::source_location where);

}  // namespace ferry::autograd
