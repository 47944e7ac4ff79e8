#include "swap/engine/plan_follower.h"

#include <utility>

#include "src/tensor/tensor_impl.h"
#include "swap/engine/iteration_recorder.h"
#include "swap/engine/restorer.h"

namespace ferry::swap {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

void PlanFollower::adopt(Iteration iteration, Plan plan, std::span<Value* const> values) {
  give_up();
  iteration_ = std::move(iteration);
  plan_ = std::move(plan);
  values_.assign(values.begin(), values.end());
  for (std::size_t s = 0; s < values_.size(); ++s)
    if (values_[s] != nullptr) values_[s]->planned = static_cast<StorageIndex>(s);
  producers_.assign(iteration_.ops.size(), {});
}

void PlanFollower::give_up() {
  for (Value* value : values_)
    if (value != nullptr) value->planned = kNone;
  values_.clear();
  producers_.clear();
  plan_.reset();
  active_ = false;
}

void PlanFollower::forget(Value& value) noexcept {
  if (value.planned != kNone) values_[index(value.planned)] = nullptr;
  value.planned = kNone;
}

void PlanFollower::begin_iteration() {
  active_ = plan_.has_value();
  met_.assign(values_.size(), false);
  position_ = 0;
  next_op_ = 0;
}

bool PlanFollower::end_iteration() {
  if (!active_) return false;
  if (next_op_ != static_cast<OpIndex>(iteration_.ops.size())) return active_ = false;
  take_steps(next_op_);
  return true;
}

bool PlanFollower::is_carried_over(const Value& value) const {
  if (value.planned == kNone || met_[index(value.planned)]) return false;
  const TensorIndex root = iteration_.storages[index(value.planned)].root;
  return root != kNone && iteration_.tensors[index(root)].producer != kNone;
}

bool PlanFollower::bind(StorageIndex storage, Value& value) {
  if (value.size != iteration_.storages[index(storage)].size) return false;
  const bool is_carried = is_carried_over(value);
  met_[index(storage)] = true;
  if (value.planned == storage) return true;
  if (value.planned != kNone && !is_carried) return false;
  if (is_carried) values_[index(value.planned)] = nullptr;
  if (Value* const before = values_[index(storage)]) before->planned = kNone;
  values_[index(storage)] = &value;
  value.planned = storage;
  return true;
}

bool PlanFollower::fits(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  if (next_op_ >= static_cast<OpIndex>(iteration_.ops.size())) return false;
  const Op& op = iteration_.ops[index(next_op_)];
  if (op.name != schema.name) return false;
  const std::vector<Value*> values = values_read(schema, inputs);
  if (values.size() != op.inputs.size()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& tensor = iteration_.tensors[index(op.inputs[i])];
    // What was there before the iteration, and what comes from elsewhere, is known by its first use.
    const bool is_known = values[i] != nullptr && values[i]->planned != kNone && !is_carried_over(*values[i]);
    if (is_known ? values[i]->planned != tensor.storage : tensor.producer != kNone) return false;
    if (values[i] != nullptr && !bind(tensor.storage, *values[i])) return false;
  }
  return true;
}

void PlanFollower::before(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  if (!active_) return;
  if (!fits(schema, inputs)) {
    active_ = false;
    return;
  }
  take_steps(next_op_);
}

void PlanFollower::take_steps(OpIndex until) {
  const Program& program = plan_->program;
  while (position_ < program.size()) {
    const Step step = program[position_];
    if (step.kind == Step::Kind::run && step.index == until) {
      ++position_;
      return;
    }
    ++position_;
    take(step);
  }
}

void PlanFollower::take(const Step& step) {
  if (step.kind == Step::Kind::create) return;
  if (step.kind == Step::Kind::run) {
    if (const std::shared_ptr<Producer> producer = producers_[index(step.index)].lock()) restorer_.rerun(producer);
    return;
  }
  Value* const value = values_[index(step.index)];
  if (value == nullptr || value->locks > 0) return;
  switch (step.kind) {
    case Step::Kind::drop:
      return room_.drop(*value);
    case Step::Kind::copy_out:
      return room_.copy_out_early(*value);
    case Step::Kind::leave:
      return room_.leave(*value);
    default:
      return restorer_.prefetch(*value);
  }
}

void PlanFollower::ran(const CallNote& note, const std::shared_ptr<Producer>& producer) {
  if (!active_) return;
  const Op& op = iteration_.ops[index(next_op_)];
  producers_[index(next_op_)] = producer;
  std::size_t next = 0;
  for (const ferry::Tensor& output : note.outputs) {
    Value* const value = output.defined() ? History::value_of(*output.impl()->storage) : nullptr;
    if (value == nullptr) continue;
    if (next == op.outputs.size() || !bind(iteration_.tensors[index(op.outputs[next])].storage, *value)) {
      active_ = false;
      return;
    }
    ++next;
  }
  if (next != op.outputs.size()) active_ = false;
  ++next_op_;
}

}  // namespace ferry::swap
