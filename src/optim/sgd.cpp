#include "src/ops/sgd.h"
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/runtime/phase.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::optim {
namespace {

std::vector<Tensor> tensors_of(const nn::Module& module) {
  std::vector<Tensor> tensors;
  for (const nn::NamedTensor& parameter : module.parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

void check(const SgdOptions& options) {
  FERRY_CHECK(options.rate >= 0 && options.momentum >= 0 && options.weight_decay >= 0, InvalidArgument,
              "Sgd: rate {}, momentum {} and weight_decay {} must not be negative", options.rate, options.momentum,
              options.weight_decay);
  FERRY_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), InvalidArgument,
              "Sgd: nesterov needs momentum above 0 and no dampening");
}

}  // namespace

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options) : options_(options) {
  check(options);
  for (Tensor& parameter : parameters) {
    FERRY_CHECK(parameter.defined() && parameter.is_leaf() && parameter.requires_grad(), InvalidArgument,
                "Sgd: parameter {} ({}) is no leaf that requires grad", slots_.size(), describe(parameter));
    slots_.push_back({std::move(parameter), {}, false});
  }
}

Sgd::Sgd(const nn::Module& module, SgdOptions options) : Sgd(tensors_of(module), options) {}

void Sgd::step(std::source_location where) {
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::optimizer);
  std::vector<Update> updates;
  for (Slot& slot : slots_) {
    if (slot.parameter.has_grad()) updates.push_back(prepare(slot, where));
  }
  for (const Update& update : updates) apply(update, where);
}

Sgd::Update Sgd::prepare(Slot& slot, std::source_location where) {
  const placement::InheritedPlacement here(slot.parameter.device());
  Update update{&slot, {}, slot.parameter.row_sparse_grad()};
  if (!update.rows) {
    update.gradient = slot.parameter.grad(where).to(slot.parameter.device(), where);
  }
  if (options_.momentum > 0 && !slot.velocity.defined()) {
    slot.velocity = named(zeros_like(slot.parameter, where), slot.parameter.name() + ".velocity");
    slot.fresh = true;
  }
  return update;
}

void Sgd::apply(const Update& update, std::source_location where) {
  Slot& slot = *update.slot;
  const placement::InheritedPlacement here(slot.parameter.device());
  ops::SgdAttributes attributes{options_.rate,         options_.momentum, options_.dampening,
                                options_.weight_decay, options_.nesterov, slot.fresh};
  if (update.rows) {
    attributes.first_step = false;
    ops::sgd_rows(slot.parameter, *update.rows, slot.velocity, attributes, where);
  } else {
    ops::sgd(slot.parameter, update.gradient, slot.velocity, attributes, where);
  }
  slot.fresh = false;
}

void Sgd::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

std::vector<nn::NamedTensor> Sgd::state() const {
  std::vector<nn::NamedTensor> state;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].velocity.defined()) state.push_back({fmt::format("velocity.{}", i), slots_[i].velocity});
  }
  return state;
}

void Sgd::set_state(const std::vector<nn::NamedTensor>& state) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    for (const nn::NamedTensor& entry : state) {
      if (entry.name != fmt::format("velocity.{}", i)) continue;
      FERRY_CHECK(entry.tensor.shape() == slots_[i].parameter.shape(), ShapeError, "Sgd: {} is {}, its parameter {}",
                  entry.name, describe(entry.tensor), describe(slots_[i].parameter));
      slots_[i].velocity =
          named(entry.tensor.to(slots_[i].parameter.device()), slots_[i].parameter.name() + ".velocity");
      slots_[i].fresh = false;
    }
  }
}

}  // namespace ferry::optim
