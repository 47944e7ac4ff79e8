// The graph that backward walks: a Node for each recorded call, with an edge to where each input came from.
//
// Ownership: a tensor owns the node that made it, a node owns the nodes of its inputs; a leaf is owned by its node's
// edge. Long chains are released without recursion.
#pragma once

#include <memory>
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

struct Node {
  ops::CallRecord call;
  std::vector<Edge> edges;     // by input
  std::uint64_t sequence = 0;  // later calls have larger numbers: a topological order
  Device device;               // where the forward op ran
  std::string scope;
  bool released = false;  // saved tensors were given up by a backward
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
};

inline Meta* meta_of(const TensorImpl& tensor) { return static_cast<Meta*>(tensor.autograd.get()); }

// a + b in the fitting form: dense, row-sparse, or a dense sum of both.
ops::Gradient accumulated(ops::Gradient a, const ops::Gradient& b, std::source_location where);

}  // namespace ferry::autograd
