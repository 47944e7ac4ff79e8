// Activation checkpointing: a region of a model whose intermediate results are not kept for backward but computed
// again there (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
//
//   Tensor y = checkpoint([&](const Tensor& x) { return block(x); }, x);
//
// Backward runs the function once more, just before it needs the region's gradients, with the random state, Autocast,
// device placement and module path that the first run had. Gradients are bit for bit those without a checkpoint, for
// the inputs, for parameters and for other tensors that the function uses. Running statistics are updated by the first
// run only. Regions nest. In traces the second run has the phase "recompute".
//
// Requires: the function computes the same when it is called again: it keeps no state of its own, and nothing it reads
// is written in place in between. It is kept, with what it captures, until backward has passed.
// Throws: what the function throws. From backward: InvalidArgument when an input or a parameter was changed in place
// since, or the function gives other results than the first time (number, shape, dtype); what it throws then. The
// random state and all scopes are as before in each case.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <ferry/tensor.h>

namespace ferry {

using CheckpointRegion = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Several inputs, several results; an undefined tensor may be among either. Results are views of nothing: one that is
// an input itself comes back as another tensor of the same storage.
std::vector<Tensor> checkpoint(CheckpointRegion region, const std::vector<Tensor>& inputs,
                               std::source_location where = std::source_location::current());

// One input, one result.
template <class F>
requires std::convertible_to<std::invoke_result_t<F&, const Tensor&>, Tensor> Tensor
checkpoint(F function, const Tensor& x, std::source_location where = std::source_location::current()) {
  const CheckpointRegion region = [function = std::move(function)](const std::vector<Tensor>& inputs) mutable {
    return std::vector<Tensor>{function(inputs[0])};
  };
  return checkpoint(region, std::vector<Tensor>{x}, where).front();
}

// x through all functions in turn, in `segments` runs of about equal length, each but the last a checkpoint: about
// length / segments + segments results are live at the peak instead of `length`.
// Throws: InvalidArgument unless 1 ≤ segments ≤ functions.size().
Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions, std::size_t segments,
                             const Tensor& x, std::source_location where = std::source_location::current());

// The same for modules, such as those of a Sequential.
template <class M>
Tensor checkpoint_sequential(const std::vector<std::shared_ptr<M>>& modules, std::size_t segments, const Tensor& x,
                             std::source_location where = std::source_location::current()) {
  std::vector<std::function<Tensor(const Tensor&)>> functions;
  for (const std::shared_ptr<M>& module : modules) {
    functions.emplace_back([module, where](const Tensor& input) { return (*module)(input, where); });
  }
  return checkpoint_sequential(functions, segments, x, where);
}

}  // namespace ferry
