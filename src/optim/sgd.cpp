#include "src/base/check.h"
#include "src/optim/optimizer_core.h"

namespace ferry::optim {
namespace {

Rule rule_of(const SgdOptions& options) {
  FERRY_CHECK(options.rate >= 0 && options.momentum >= 0 && options.weight_decay >= 0, InvalidArgument,
              "Sgd: rate {}, momentum {} and weight_decay {} must not be negative", options.rate, options.momentum,
              options.weight_decay);
  FERRY_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), InvalidArgument,
              "Sgd: nesterov needs momentum above 0 and no dampening");
  Rule rule{.optimizer = "Sgd",
            .dense = &ops::kSgd,
            .rows = &ops::kSgdRows,
            .counts_steps = false,
            .rate = options.rate,
            .row_sparse = options.row_sparse,
            .master_weights = options.master_weights};
  if (options.momentum > 0) rule.states = {"velocity"};
  rule.attributes = [options](double rate, std::int64_t) {
    return ops::OptimizerAttributes{.rate = rate,
                                    .weight_decay = options.weight_decay,
                                    .momentum = options.momentum,
                                    .dampening = options.dampening,
                                    .nesterov = options.nesterov};
  };
  return rule;
}

std::unique_ptr<OptimizerCore> make_core(std::vector<ParameterGroup<SgdOptions>> groups) {
  return std::make_unique<OptimizerCore>(rule_groups(std::move(groups), rule_of));
}

}  // namespace

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options)
    : Sgd(std::vector<ParameterGroup<SgdOptions>>{{std::move(parameters), options}}) {}
Sgd::Sgd(const nn::Module& module, SgdOptions options) : Sgd(parameters_of(module), options) {}
Sgd::Sgd(std::vector<ParameterGroup<SgdOptions>> groups) : Optimizer(make_core(std::move(groups))) {}

}  // namespace ferry::optim
