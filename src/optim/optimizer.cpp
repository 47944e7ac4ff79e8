#include <ferry/optim.h>

#include "src/base/check.h"
#include "src/optim/optimizer_core.h"

namespace ferry::optim {

Optimizer::Optimizer(std::unique_ptr<OptimizerCore> core) : core_(std::move(core)) {}
Optimizer::~Optimizer() = default;

void Optimizer::step(std::source_location where) { core_->step(where); }

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters()) parameter.zero_grad();
}

std::vector<Tensor> Optimizer::parameters() const { return core_->parameters(); }
std::size_t Optimizer::group_count() const { return core_->rules().size(); }

double Optimizer::rate(std::size_t group) const {
  FERRY_CHECK(group < group_count(), InvalidArgument, "rate: there is no group {} of {}", group, group_count());
  return core_->rules()[group].rate;
}

void Optimizer::set_rate(double rate) {
  for (std::size_t group = 0; group < group_count(); ++group) set_rate(group, rate);
}

void Optimizer::set_rate(std::size_t group, double rate) {
  FERRY_CHECK(group < group_count(), InvalidArgument, "set_rate: there is no group {} of {}", group, group_count());
  FERRY_CHECK(rate >= 0, InvalidArgument, "set_rate: {} is negative", rate);
  core_->rules()[group].rate = rate;
}

std::vector<nn::NamedTensor> Optimizer::state() const { return core_->state(); }
void Optimizer::set_state(const std::vector<nn::NamedTensor>& state) { core_->set_state(state); }

}  // namespace ferry::optim
