// What all optimizers share: slots of state beside parameters, and one op call for all that agree.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/optim.h>
#include "src/ops/optimizer.h"

namespace ferry {
class RuntimeCore;
namespace swap {
class Engine;
}
}  // namespace ferry

namespace ferry::optim {

// One group's formula.
struct Rule {
  std::string_view optimizer;  // static storage, for messages
  const ops::OpSchema* dense = nullptr;
  const ops::OpSchema* rows = nullptr;
  std::vector<std::string_view> states{};  // names, in the places of OptimizerGroup::states
  bool counts_steps = true;                // the formula depends on their number
  double initial_state = 0;
  double rate = 0;
  RowSparseUpdate row_sparse = RowSparseUpdate::lazy;
  bool master_weights = false;
  // Of a parameter's step number `step`, from 1.
  std::function<ops::OptimizerAttributes(double rate, std::int64_t step)> attributes{};
};

struct RuleGroup {
  std::vector<Tensor> parameters;
  Rule rule;
};

class OptimizerCore {
 public:
  // Throws: InvalidArgument.
  explicit OptimizerCore(std::vector<RuleGroup> groups);

  void step(std::source_location where);
  std::vector<Tensor> parameters() const;
  std::vector<Rule>& rules() { return rules_; }
  std::vector<nn::NamedTensor> state() const;
  void set_state(const std::vector<nn::NamedTensor>& state);

 private:
  struct Slot {
    Tensor parameter;
    std::size_t rule = 0;
    Device device;  // where state lives and the update runs
    Tensor states[ops::kOptimizerStates]{};
    Tensor master{};
    std::int64_t steps = 0;
    std::uint32_t version = 0;  // of the parameter that the master was rounded to
  };
  // Parameters of one op call.
  struct Batch {
    std::size_t rule;
    DType dtype;
    Device device;
    std::int64_t steps;
    bool sparse;
    std::vector<Slot*> slots{};
    std::vector<ops::OptimizerGroup> groups{};

    // Empty while its first slot is made ready.
    bool is_done() const { return !slots.empty() && slots.front()->steps != steps; }
  };

  // `batches`: what there is to do, as soon as it is known.
  void update(std::vector<Batch>& batches, std::source_location where, RuntimeCore& core);
  static void secure(const std::vector<Batch>& batches, std::source_location where, RuntimeCore& core);
  void add(std::vector<Batch>& batches, Slot& slot, std::source_location where);
  ops::OptimizerGroup prepared(Slot& slot, std::source_location where);
  static void secure_writes(swap::Engine& engine, const Batch& batch);
  void apply(const Batch& batch, std::source_location where);
  static PartialUpdate partial_update(const std::vector<Batch>& batches, const Error& error);
  bool has_master(const Slot& slot) const;
  // Where in `slot` the state called `name` is; null for none.
  Tensor* find_state(Slot& slot, std::string_view name) const;

  std::vector<Rule> rules_;
  std::vector<Slot> slots_;
};

template <class Options>
std::vector<RuleGroup> rule_groups(std::vector<ParameterGroup<Options>> groups, Rule (*rule_of)(const Options&)) {
  std::vector<RuleGroup> result;
  for (ParameterGroup<Options>& group : groups) {
    result.push_back({std::move(group.parameters), rule_of(group.options)});
  }
  return result;
}

std::vector<Tensor> parameters_of(const nn::Module& module);

}  // namespace ferry::optim
