#include <ferry/checkpoint.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <ferry/no_grad.h>
#include <ferry/random.h>
#include <ferry/scope.h>
#include "placement/placement.h"
#include "src/autograd/node.h"
#include "src/autograd/watch.h"
#include "src/base/check.h"
#include "src/ops/autocast.h"
#include "src/ops/invoke.h"
#include "src/runtime/autocast.h"
#include "src/runtime/current.h"
#include "src/runtime/phase.h"
#include "src/runtime/runtime_core.h"

namespace ferry {
namespace autograd {
namespace {

thread_local GradWatch* watch_now = nullptr;

// Only its name is used.
constexpr ops::OpSchema kCheckpoint{.name = "checkpoint", .op_class = OpClass::metadata, .arguments = {"input"}};

void check_unchanged(const ops::SavedTensor& saved) {
  const std::uint32_t now = saved.tensor.impl()->storage->version();
  FERRY_CHECK(now == saved.version, InvalidArgument,
              "backward of checkpoint: '{}' ({}) was changed in place after the region read it (version {}, now {}); "
              "use the out-of-place op or clone it first",
              saved.tensor.name(), describe(saved.tensor), saved.version, now);
}

// What the region finds around it.
class Surroundings {
 public:
  Surroundings() : guard_(placement::innermost_guard()), core_(current_core()), random_(random_state()) {
    if (const std::source_location* call = Scope::module_call()) module_call_ = *call;
    if (autocast_frame() != nullptr) autocast_ = autocast_frame()->shared_from_this();
  }

  // Runs `body` in them, building the graph.
  template <class F>
  auto restored(const F& body) const {
    const CurrentCore core(core_);
    const placement::RestoredGuard guard(guard_);
    std::optional<ModuleScope> module;
    if (module_call_) module.emplace("", *module_call_);
    const RestoredRandomState random(random_);
    const RestoredAutocast autocast(autocast_);
    const PhaseScope phase(trace::Phase::recompute);
    const GradModeScope grad(GradMode::on);
    return body();
  }

 private:
  placement::GuardFrame guard_;
  std::shared_ptr<RuntimeCore> core_;
  RandomState random_;
  std::optional<std::source_location> module_call_;
  std::shared_ptr<const AutocastFrame> autocast_;
};

class Region final : public Replay {
 public:
  Region(CheckpointRegion function, const std::vector<Tensor>& inputs) : function_(std::move(function)) {
    for (const Tensor& input : inputs) inputs_.push_back(input.defined() ? save(input) : ops::SavedTensor{});
  }

  // Runs the region for its results alone and notes what of the graph it uses.
  std::vector<Tensor> run_first(const std::vector<Tensor>& inputs) {
    GradWatch watch;
    std::vector<Tensor> outputs = function_(inputs);
    used_ = std::move(watch.seen());
    return outputs;
  }
  bool used_graph() const { return !used_.empty(); }

  std::vector<Tensor> run(std::span<const Edge> edges) const override {
    for (const ops::SavedTensor& used : used_) check_unchanged(used);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(input_again(inputs_[i], edges[i]));
    return surroundings_.restored([&] { return function_(inputs); });
  }

 private:
  // The input as it was: at the end of the same edge.
  static Tensor input_again(const ops::SavedTensor& saved, const Edge& edge) {
    if (!saved.tensor.defined()) return {};
    check_unchanged(saved);
    if (edge.leaf != nullptr) return Tensor(edge.leaf);
    Tensor input = saved.tensor.detach();
    if (edge.node != nullptr) {
      auto meta = std::make_unique<Meta>();
      meta->requires_grad = true;
      meta->node = edge.node;
      meta->output = edge.output;
      input.impl()->autograd = std::move(meta);
    }
    return input;
  }

  CheckpointRegion function_;
  std::vector<ops::SavedTensor> inputs_, used_;
  Surroundings surroundings_;
};

std::shared_ptr<Node> make_node(std::unique_ptr<Region> region, const std::vector<Tensor>& inputs,
                                const std::vector<Tensor>& outputs, std::source_location where) {
  auto node = make_cell<Node>();
  node->call.schema = &kCheckpoint;
  node->call.where = Scope::module_call() == nullptr ? where : *Scope::module_call();
  node->call.inputs.resize(inputs.size());
  for (const Tensor& input : inputs) node->edges.push_back(input.defined() ? edge_to(input) : Edge{});
  node->sequence = next_sequence();
  for (const Tensor& output : outputs) {
    if (output.defined()) node->device = output.device();
  }
  node->scope = Scope::path();
  node->output_count = static_cast<std::uint32_t>(outputs.size());
  node->replay = std::move(region);
  return node;
}

// Puts the results, which no graph knows yet, behind `node`.
void attach(const std::shared_ptr<Node>& node, std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    if (!output.defined() || !is_floating(output.dtype())) continue;
    // An input or a tensor that the function keeps stays what it is.
    if (output.shared_impl().use_count() > 1 || output.impl()->autograd != nullptr) output = output.detach();
    auto meta = std::make_unique<Meta>();
    meta->requires_grad = true;
    meta->node = node;
    meta->output = static_cast<std::uint32_t>(i);
    output.impl()->autograd = std::move(meta);
  }
}

}  // namespace

GradWatch::GradWatch() : outer_(std::exchange(watch_now, this)) {}
GradWatch::~GradWatch() { watch_now = outer_; }

void GradWatch::note(ops::TensorPointers inputs) {
  std::vector<ops::SavedTensor>& seen = watch_now->seen_;
  for (const Tensor* input : inputs) {
    if (!input->defined() || !is_in_graph(*input->impl())) continue;
    const Storage* storage = input->impl()->storage.get();
    const auto same = [&](const ops::SavedTensor& each) { return each.tensor.impl()->storage.get() == storage; };
    if (std::ranges::none_of(seen, same)) seen.push_back(save(*input));
  }
}

}  // namespace autograd

void ops::note_use(const Tensor& tensor) {
  const Tensor* inputs[] = {&tensor};
  if (autograd::watch_now != nullptr) autograd::GradWatch::note(inputs);
}

std::vector<Tensor> checkpoint(CheckpointRegion region, const std::vector<Tensor>& inputs, std::source_location where) {
  // Without a graph there is nothing to leave out; inside another region that one is computed again.
  if (!grad_enabled()) return region(inputs);
  auto kept = std::make_unique<autograd::Region>(std::move(region), inputs);
  std::vector<Tensor> outputs = kept->run_first(inputs);
  bool in_graph = kept->used_graph();
  for (const Tensor& output : outputs) in_graph = in_graph || (output.defined() && output.requires_grad());
  if (in_graph) autograd::attach(autograd::make_node(std::move(kept), inputs, outputs, where), outputs);
  return outputs;
}

Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions, std::size_t segments,
                             const Tensor& x, std::source_location where) {
  FERRY_CHECK(segments >= 1 && segments <= functions.size(), InvalidArgument,
              "checkpoint_sequential: {} functions do not divide into {} segments", functions.size(), segments);
  Tensor y = x;
  for (std::size_t i = 0; i < segments; ++i) {
    const std::size_t begin = i * functions.size() / segments, end = (i + 1) * functions.size() / segments;
    const std::vector<std::function<Tensor(const Tensor&)>> part(functions.begin() + static_cast<std::ptrdiff_t>(begin),
                                                                 functions.begin() + static_cast<std::ptrdiff_t>(end));
    const auto run = [part](const Tensor& input) {
      Tensor result = input;
      for (const auto& function : part) result = function(result);
      return result;
    };
    y = i + 1 < segments ? checkpoint(run, y, where) : run(y);
  }
  return y;
}

}  // namespace ferry
