#include "src/optim/optimizer_core.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/runtime/autocast.h"
#include "src/runtime/budget.h"
#include "src/runtime/phase.h"
#include "src/runtime/residency.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::optim {
namespace {

constexpr std::size_t kNamed = 8;  // parameters that a message names

DType state_dtype(DType dtype) { return size_of(dtype) == 2 ? DType::f32 : dtype; }

// A tensor beside `parameter`: its shape and, where it is dense, its order of axes.
Tensor beside(const Tensor& parameter, DType dtype, double value, std::source_location where) {
  if (parameter.is_contiguous()) {
    const ops::RuntimeOf runtime(parameter);
    return full(parameter.shape(), value, dtype, where);
  }
  return ops::invoke(ops::kCopy, {&parameter}, ops::CopyAttributes{dtype, false}, where).fill_(value, where);
}

// The gradient in the parameter's order of axes, so that one flat loop can go over both.
Tensor aligned(const Tensor& gradient, const Tensor& parameter, std::source_location where) {
  if (gradient.strides() == parameter.strides() || parameter.numel() <= 1) return gradient;
  if (parameter.is_contiguous()) return gradient.contiguous(where);
  return beside(parameter, gradient.dtype(), 0, where).copy_(gradient, where);
}

// Its bytes are on `device` after this, so that the op call has nothing to wait or allocate for.
void bring_to(const Tensor& tensor, Device device, std::source_location where) {
  if (!tensor.defined()) return;
  auto& core = static_cast<RuntimeCore&>(*tensor.impl()->storage->owner());
  bring(core, *tensor.impl(), device,
        {"optimizer", where, trace::CopyCause::transfer, trace::PlacementCause::inherited});
}

// Starts the copy of a parameter that was updated elsewhere, so that the next forward finds it.
void send_home(const Tensor& parameter, std::source_location where) {
  try {
    bring_to(parameter, parameter.device(), where);
  } catch (const OutOfMemory&) {
    // The step is done; whoever needs the parameter there brings it.
  }
}

}  // namespace

OptimizerCore::OptimizerCore(std::vector<RuleGroup> groups) {
  const placement::GuardFrame guard = placement::innermost_guard();
  const bool offloads = guard.device && guard.device->is_cpu() && !guard.inherited;
  std::set<const TensorImpl*> seen;
  for (RuleGroup& group : groups) {
    for (Tensor& parameter : group.parameters) {
      FERRY_CHECK(parameter.defined() && parameter.is_leaf() && parameter.requires_grad(), InvalidArgument,
                  "{}: parameter {} ({}) is no leaf that requires grad", group.rule.optimizer, slots_.size(),
                  describe(parameter));
      FERRY_CHECK(seen.insert(parameter.impl()).second, InvalidArgument, "{}: parameter {} ('{}') stands twice",
                  group.rule.optimizer, slots_.size(), parameter.name());
      const Device device = offloads ? cpu::device : parameter.device();
      slots_.push_back({.parameter = std::move(parameter), .rule = rules_.size(), .device = device});
    }
    rules_.push_back(std::move(group.rule));
  }
}

bool OptimizerCore::has_master(const Slot& slot) const {
  return rules_[slot.rule].master_weights && size_of(slot.parameter.dtype()) == 2;
}

void OptimizerCore::step(std::source_location where) {
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::optimizer);
  const RestoredAutocast own_types(nullptr);
  if (slots_.empty()) return;
  auto& core = static_cast<RuntimeCore&>(*slots_.front().parameter.impl()->storage->owner());
  std::vector<Batch> batches;
  try {
    update(batches, where, core);
    if (Budget* budget = core.budget()) budget->engine().next_iteration();
  } catch (const Error& error) {
    if (std::ranges::none_of(batches, &Batch::is_done)) throw;
    throw partial_update(batches, error);
  }
}

void OptimizerCore::update(std::vector<Batch>& batches, std::source_location where, RuntimeCore& core) {
  const ResidencyScope scope(core, ResidencyScope::Addresses::may_change);
  for (Slot& slot : slots_) {
    if (slot.parameter.has_grad()) add(batches, slot, where);
  }
  secure(batches, where, core);
  for (const Batch& batch : batches) apply(batch, where);
  for (const Batch& batch : batches) {
    for (const Slot* slot : batch.slots) send_home(slot->parameter, where);
  }
}

// Everything is where the update needs it before the first parameter is written, and stays there. Gradients first:
// where they have to be computed again, that needs room.
void OptimizerCore::secure(const std::vector<Batch>& batches, std::source_location where, RuntimeCore& core) {
  for (const Batch& batch : batches) {
    for (const ops::OptimizerGroup& group : batch.groups)
      for (const Tensor* tensor : {&group.grad, &group.rows, &group.values}) bring_to(*tensor, batch.device, where);
  }
  for (const Batch& batch : batches) {
    for (const ops::OptimizerGroup& group : batch.groups) {
      for (const Tensor& tensor : group.states) bring_to(tensor, batch.device, where);
      for (const Tensor* tensor : {&group.param, &group.master}) bring_to(*tensor, batch.device, where);
    }
  }
  if (Budget* budget = core.budget()) {
    for (const Batch& batch : batches) secure_writes(budget->engine(), batch);
  }
}

// What only the old parameters and state give is computed before the first of them is written.
void OptimizerCore::secure_writes(swap::Engine& engine, const Batch& batch) {
  for (const ops::OptimizerGroup& group : batch.groups) {
    for (const Tensor* tensor : {&group.param, &group.master}) {
      if (tensor->defined()) engine.before_write(*tensor->impl()->storage);
    }
    for (const Tensor& state : group.states) {
      if (state.defined()) engine.before_write(*state.impl()->storage);
    }
  }
}

PartialUpdate OptimizerCore::partial_update(const std::vector<Batch>& batches, const Error& error) {
  std::vector<std::string> names;
  std::size_t count = 0;
  for (const Batch& batch : batches) {
    count += batch.slots.size();
    if (!batch.is_done()) continue;
    for (const Slot* slot : batch.slots) names.push_back(slot->parameter.name());
  }
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamed) list += fmt::format(" and {} more", names.size() - kNamed);
  const std::string_view what =
      names.size() == count ? "the step is done, but not what follows it" : "the step is partial";
  return {fmt::format("{}: {} ({}) were updated before this: {}", what, names.size(), list, error.what()),
          std::move(names)};
}

void OptimizerCore::add(std::vector<Batch>& batches, Slot& slot, std::source_location where) {
  const bool sparse = slot.parameter.row_sparse_grad().has_value();
  const DType dtype = slot.parameter.dtype();
  auto batch = std::ranges::find_if(batches, [&](const Batch& each) {
    return each.rule == slot.rule && each.dtype == dtype && each.device == slot.device && each.steps == slot.steps &&
           each.sparse == sparse;
  });
  if (batch == batches.end()) {
    batch = batches.insert(batch, {slot.rule, dtype, slot.device, slot.steps, sparse});
  }
  batch->groups.push_back(prepared(slot, where));
  batch->slots.push_back(&slot);
}

ops::OptimizerGroup OptimizerCore::prepared(Slot& slot, std::source_location where) {
  const placement::InheritedPlacement here(slot.device);
  const Rule& rule = rules_[slot.rule];
  const Tensor& parameter = slot.parameter;
  ops::OptimizerGroup group{.param = parameter};
  if (const auto rows = parameter.row_sparse_grad()) {
    FERRY_CHECK(parameter.is_contiguous(), InvalidArgument,
                "{}: '{}' ({}) has row-sparse gradients and must be contiguous", rule.optimizer, parameter.name(),
                describe(parameter));
    group.rows = rows->rows.to(slot.device, where).contiguous(where);
    group.values = rows->values.to(slot.device, where).contiguous(where);
  } else {
    group.grad = aligned(parameter.grad(where).to(slot.device, where), parameter, where);
  }
  for (std::size_t i = 0; i < rule.states.size(); ++i) {
    if (!slot.states[i].defined()) {
      slot.states[i] = named(beside(parameter, state_dtype(parameter.dtype()), rule.initial_state, where),
                             parameter.name() + '.' + std::string(rule.states[i]));
    }
    group.states[i] = slot.states[i];
  }
  if (has_master(slot)) {
    const std::uint32_t version = parameter.impl()->storage->version();
    // Values that the program put into the parameter itself count.
    if (!slot.master.defined() || slot.version != version) {
      slot.master = named(parameter.to(DType::f32, where), parameter.name() + ".master");
      slot.version = version;
    }
    group.master = slot.master;
  }
  return group;
}

void OptimizerCore::apply(const Batch& batch, std::source_location where) {
  const placement::InheritedPlacement here(batch.device);
  const Rule& rule = rules_[batch.rule];
  ops::OptimizerAttributes attributes = rule.attributes(rule.rate, batch.steps + 1);
  attributes.every_row = rule.row_sparse == RowSparseUpdate::strict;
  // A velocity starts as zeros of the whole table: a row that is named later has had a first step.
  attributes.first_step = batch.steps == 0 && (!batch.sparse || attributes.every_row);
  const Storage& written = *batch.slots.front()->parameter.impl()->storage;
  const std::uint32_t before = written.version();
  const auto count_step = [&] {
    for (Slot* slot : batch.slots) {
      ++slot->steps;
      slot->version = slot->parameter.impl()->storage->version();
    }
  };
  try {
    ops::optimizer_step(batch.sparse ? *rule.rows : *rule.dense, batch.groups, attributes, where);
  } catch (...) {
    // What fails after the launch has written all the same.
    if (written.version() != before) count_step();
    throw;
  }
  count_step();
}

std::vector<Tensor> OptimizerCore::parameters() const {
  std::vector<Tensor> parameters;
  for (const Slot& slot : slots_) parameters.push_back(slot.parameter);
  return parameters;
}

std::vector<nn::NamedTensor> OptimizerCore::state() const {
  std::vector<nn::NamedTensor> state;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.steps == 0) continue;
    const Rule& rule = rules_[slot.rule];
    for (std::size_t k = 0; k < rule.states.size(); ++k) {
      state.push_back({fmt::format("{}.{}", rule.states[k], i), slot.states[k]});
    }
    if (slot.master.defined()) state.push_back({fmt::format("master.{}", i), slot.master});
    if (rule.counts_steps) {
      const ops::RuntimeOf runtime(slot.parameter);
      state.push_back({fmt::format("step.{}", i), from_vector(std::vector<std::int64_t>{slot.steps})});
    }
  }
  return state;
}

Tensor* OptimizerCore::find_state(Slot& slot, std::string_view name) const {
  const Rule& rule = rules_[slot.rule];
  if (name == "master") return has_master(slot) ? &slot.master : nullptr;
  const auto found = std::ranges::find(rule.states, name);
  return found == rule.states.end() ? nullptr : &slot.states[found - rule.states.begin()];
}

void OptimizerCore::set_state(const std::vector<nn::NamedTensor>& state) {
  const NoGrad no_grad;
  const std::source_location where = std::source_location::current();
  std::vector<Slot> slots;
  for (const Slot& slot : slots_) {
    slots.push_back({.parameter = slot.parameter, .rule = slot.rule, .device = slot.device});
  }
  for (const auto& [name, tensor] : state) {
    const std::size_t dot = std::min(name.rfind('.'), name.size());
    const std::string_view kind = std::string_view(name).substr(0, dot);
    std::size_t position = slots.size();
    std::from_chars(name.data() + std::min(dot + 1, name.size()), name.data() + name.size(), position);
    Slot* const slot = position < slots.size() ? &slots[position] : nullptr;
    if (slot != nullptr && kind == "step" && rules_[slot->rule].counts_steps) {
      slot->steps = static_cast<std::int64_t>(tensor.item());
      continue;
    }
    Tensor* const place = slot == nullptr ? nullptr : find_state(*slot, kind);
    FERRY_CHECK(place != nullptr, InvalidArgument, "{}: there is no state '{}' for {} parameters",
                rules_.empty() ? "optimizer" : rules_[0].optimizer, name, slots.size());
    const Tensor& parameter = slot->parameter;
    FERRY_CHECK(tensor.defined() && tensor.shape() == parameter.shape(), ShapeError, "{}: {} is {}, its parameter {}",
                rules_[slot->rule].optimizer, name, describe(tensor), describe(parameter));
    const placement::InheritedPlacement here(slot->device);
    *place = beside(parameter, state_dtype(parameter.dtype()), 0, where).copy_(tensor, where);
    named(*place, parameter.name() + '.' + std::string(kind));
    slot->version = parameter.impl()->storage->version();
    if (!rules_[slot->rule].counts_steps) slot->steps = 1;
  }
  slots_ = std::move(slots);
}

std::vector<Tensor> parameters_of(const nn::Module& module) {
  std::vector<Tensor> tensors;
  for (const nn::NamedTensor& parameter : module.parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace ferry::optim
