#include "src/base/check.h"
#include "src/optim/optimizer_core.h"

namespace ferry::optim {
namespace {

Rule rule_of(const AdagradOptions& options) {
  FERRY_CHECK(options.rate >= 0 && options.rate_decay >= 0 && options.weight_decay >= 0 &&
                  options.initial_accumulator >= 0 && options.epsilon >= 0,
              InvalidArgument,
              "Adagrad: rate {}, rate_decay {}, weight_decay {}, initial_accumulator {} and epsilon {} must not be "
              "negative",
              options.rate, options.rate_decay, options.weight_decay, options.initial_accumulator, options.epsilon);
  Rule rule{.optimizer = "Adagrad",
            .dense = &ops::kAdagrad,
            .rows = &ops::kAdagradRows,
            .states = {"sum"},
            .initial_state = options.initial_accumulator,
            .rate = options.rate,
            .row_sparse = options.row_sparse,
            .master_weights = options.master_weights};
  rule.attributes = [options](double rate, std::int64_t step) {
    return ops::OptimizerAttributes{.rate = rate / (1 + static_cast<double>(step - 1) * options.rate_decay),
                                    .weight_decay = options.weight_decay,
                                    .epsilon = options.epsilon};
  };
  return rule;
}

}  // namespace

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options)
    : Adagrad(std::vector<ParameterGroup<AdagradOptions>>{{std::move(parameters), options}}) {}
Adagrad::Adagrad(const nn::Module& module, AdagradOptions options) : Adagrad(parameters_of(module), options) {}
Adagrad::Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups)
    : Optimizer(std::make_unique<OptimizerCore>(rule_groups(std::move(groups), rule_of))) {}

}  // namespace ferry::optim
