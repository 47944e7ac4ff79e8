#include "swap/engine/plan_follower.h"

#include <algorithm>
#include <utility>

#include "src/tensor/tensor_impl.h"
#include "swap/engine/iteration_recorder.h"
#include "swap/engine/restorer.h"

namespace ferry::swap {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

void PlanFollower::adopt(IterationRecorder::Recorded recorded, Plan plan) {
  give_up();
  recorded_ = std::move(recorded);
  plan_ = std::move(plan);
  values_ = recorded_.values;
  for (std::size_t s = 0; s < values_.size(); ++s)
    if (values_[s] != nullptr) values_[s]->planned = static_cast<StorageIndex>(s);
  producers_.assign(recorded_.iteration.ops.size(), {});
}

void PlanFollower::give_up() {
  for (Value* value : values_) {
    if (value == nullptr) continue;
    value->planned = kNone;
    value->place = nullptr;
  }
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
  for (std::size_t s = 0; s < values_.size(); ++s)
    if (values_[s] != nullptr) values_[s]->place = layout_.home(static_cast<StorageIndex>(s));
  outputs_.clear();
  made_ = {};
  arriving_.clear();
  expected_.clear();
  unplaced_.clear();
  met_.assign(values_.size(), false);
  position_ = 0;
  next_op_ = 0;
}

bool PlanFollower::end_iteration() {
  if (!active_) return false;
  if (next_op_ != static_cast<OpIndex>(recorded_.iteration.ops.size())) return active_ = false;
  take_steps(next_op_);
  return true;
}

bool PlanFollower::is_carried_over(const Value& value) const {
  if (value.planned == kNone || met_[index(value.planned)]) return false;
  const TensorIndex root = recorded_.iteration.storages[index(value.planned)].root;
  return root != kNone && recorded_.iteration.tensors[index(root)].producer != kNone;
}

bool PlanFollower::bind(StorageIndex storage, Value& value) {
  if (value.size != recorded_.iteration.storages[index(storage)].size) return false;
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
  if (next_op_ >= static_cast<OpIndex>(recorded_.iteration.ops.size())) return false;
  const Op& op = recorded_.iteration.ops[index(next_op_)];
  if (op.name != schema.name) return false;
  const std::vector<Value*> values = values_read(schema, inputs);
  if (values.size() != op.inputs.size()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& tensor = recorded_.iteration.tensors[index(op.inputs[i])];
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
  place_arrivals();
}

// What came from elsewhere is known by its first use.
void PlanFollower::place_arrivals() {
  std::erase_if(unplaced_, [this](std::size_t residency) {
    const StorageIndex storage = layout_.storage_of(residency);
    Value* const value = values_[index(storage)];
    if (value == nullptr || !met_[index(storage)]) return false;
    if (value->pins == 0) room_.place(*value, layout_.address(residency));
    return true;
  });
}

void PlanFollower::take_steps(OpIndex until) {
  const Program& program = plan_->program;
  arriving_.clear();
  outputs_.clear();
  made_ = {};
  while (position_ < program.size()) {
    const Step step = program[position_];
    const Layout::Range begun = layout_.begun_by(position_);
    ++position_;
    if (step.kind == Step::Kind::run && step.index == until) {
      made_ = begun;
      for (std::size_t r = begun.first; r < begun.last; ++r) outputs_.push_back(r);
      return;
    }
    take(step, begun);
  }
}

void PlanFollower::take(const Step& step, Layout::Range begun) {
  if (step.kind == Step::Kind::create) {
    for (std::size_t r = begun.first; r < begun.last; ++r) {
      if (layout_.storage_of(r) < recorded_.present) continue;
      if (layout_.address(r) != nullptr) unplaced_.push_back(r);
      if (std::erase(expected_, r) == 0) arriving_.push_back(r);
    }
    return;
  }
  if (step.kind == Step::Kind::run) return run_again(step.index, begun);
  Value* const value = values_[index(step.index)];
  if (value == nullptr || value->locks > 0) return;
  if (step.kind == Step::Kind::copy_out) return room_.copy_out_early(*value);
  if (step.kind == Step::Kind::bring_in) return bring_in(*value, begun);
  value->place = nullptr;
  step.kind == Step::Kind::drop ? room_.drop(*value) : room_.leave(*value);
}

void PlanFollower::run_again(OpIndex op, Layout::Range begun) {
  for (std::size_t r = begun.first; r < begun.last; ++r)
    if (Value* const value = values_[index(layout_.storage_of(r))]; value != nullptr && !has_bytes(*value))
      value->place = layout_.address(r);
  if (const std::shared_ptr<Producer> producer = producers_[index(op)].lock()) restorer_.rerun(producer);
}

// The plan counts on the old memory unless the storage keeps it.
void PlanFollower::bring_in(Value& value, Layout::Range begun) {
  if (begun.first != begun.last) {
    value.place = layout_.address(begun.first);
    if (value.place != nullptr && room_.address(value) != value.place) room_.leave_now(value);
  }
  restorer_.prefetch(value);
  count_place(value);
}

void PlanFollower::count_place(const Value& value) {
  if (value.place != nullptr) ++(room_.address(value) == value.place ? stats_.placed : stats_.displaced);
}

Bytes PlanFollower::size_of(std::size_t residency) const {
  return recorded_.iteration.storages[index(layout_.storage_of(residency))].size;
}

void* PlanFollower::take_place(std::vector<std::size_t>& residencies, Bytes size) {
  const auto found = std::ranges::find(residencies, size, [this](std::size_t r) { return size_of(r); });
  if (found == residencies.end()) return nullptr;
  const std::size_t residency = *found;
  residencies.erase(found);
  return layout_.address(residency);
}

void* PlanFollower::output_place(Bytes size) { return active_ ? take_place(outputs_, size) : nullptr; }

void* PlanFollower::input_place(Bytes size) {
  if (!active_) return nullptr;
  if (void* const place = take_place(arriving_, size)) return place;
  const Program& program = plan_->program;
  for (std::size_t next = position_; next < program.size() && program[next].kind != Step::Kind::run; ++next) {
    if (program[next].kind != Step::Kind::create) continue;
    const Layout::Range begun = layout_.begun_by(next);
    for (std::size_t r = begun.first; r < begun.last; ++r) {
      const bool comes = layout_.storage_of(r) >= recorded_.present && size_of(r) == size;
      if (!comes || std::ranges::find(expected_, r) != expected_.end()) continue;
      expected_.push_back(r);
      return layout_.address(r);
    }
  }
  return nullptr;
}

void PlanFollower::ran(const CallNote& note, const std::shared_ptr<Producer>& producer) {
  if (!active_) return;
  const Op& op = recorded_.iteration.ops[index(next_op_)];
  producers_[index(next_op_)] = producer;
  std::size_t next = 0;
  for (const ferry::Tensor& output : note.outputs) {
    Value* const value = output.defined() ? History::value_of(*output.impl()->storage) : nullptr;
    if (value == nullptr) continue;
    if (next == op.outputs.size() || !bind(recorded_.iteration.tensors[index(op.outputs[next])].storage, *value)) {
      active_ = false;
      return;
    }
    ++next;
  }
  if (next != op.outputs.size()) active_ = false;
  for (std::size_t r = made_.first; r < made_.last; ++r)
    if (Value* const value = values_[index(layout_.storage_of(r))]) {
      value->place = layout_.address(r);
      count_place(*value);
    }
  ++next_op_;
}

}  // namespace ferry::swap
