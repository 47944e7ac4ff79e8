// Adam and AdamW.
#include <cmath>

#include "src/base/check.h"
#include "src/optim/optimizer_core.h"

namespace ferry::optim {
namespace {

template <class Options>
Rule rule_of(std::string_view name, const Options& options, bool decoupled) {
  FERRY_CHECK(options.rate >= 0 && options.epsilon >= 0 && options.weight_decay >= 0, InvalidArgument,
              "{}: rate {}, epsilon {} and weight_decay {} must not be negative", name, options.rate, options.epsilon,
              options.weight_decay);
  FERRY_CHECK(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, InvalidArgument,
              "{}: beta1 {} and beta2 {} must be in [0, 1)", name, options.beta1, options.beta2);
  Rule rule{.optimizer = name,
            .dense = decoupled ? &ops::kAdamW : &ops::kAdam,
            .rows = decoupled ? &ops::kAdamWRows : &ops::kAdamRows,
            .states = {"exp_avg", "exp_avg_sq"},
            .rate = options.rate,
            .row_sparse = options.row_sparse,
            .master_weights = options.master_weights};
  if (options.amsgrad) rule.states.push_back("max_exp_avg_sq");
  rule.attributes = [options, decoupled](double rate, std::int64_t step) {
    const auto t = static_cast<double>(step);
    return ops::OptimizerAttributes{.rate = rate,
                                    .weight_decay = decoupled ? 0 : options.weight_decay,
                                    .epsilon = options.epsilon,
                                    .beta1 = options.beta1,
                                    .beta2 = options.beta2,
                                    .correction1 = 1 - std::pow(options.beta1, t),
                                    .correction2 = 1 - std::pow(options.beta2, t),
                                    .shrink = decoupled ? 1 - rate * options.weight_decay : 1};
  };
  return rule;
}

Rule adam_rule(const AdamOptions& options) { return rule_of("Adam", options, false); }
Rule adamw_rule(const AdamWOptions& options) { return rule_of("AdamW", options, true); }

}  // namespace

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options)
    : Adam(std::vector<ParameterGroup<AdamOptions>>{{std::move(parameters), options}}) {}
Adam::Adam(const nn::Module& module, AdamOptions options) : Adam(parameters_of(module), options) {}
Adam::Adam(std::vector<ParameterGroup<AdamOptions>> groups)
    : Optimizer(std::make_unique<OptimizerCore>(rule_groups(std::move(groups), adam_rule))) {}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : AdamW(std::vector<ParameterGroup<AdamWOptions>>{{std::move(parameters), options}}) {}
AdamW::AdamW(const nn::Module& module, AdamWOptions options) : AdamW(parameters_of(module), options) {}
AdamW::AdamW(std::vector<ParameterGroup<AdamWOptions>> groups)
    : Optimizer(std::make_unique<OptimizerCore>(rule_groups(std::move(groups), adamw_rule))) {}

}  // namespace ferry::optim
