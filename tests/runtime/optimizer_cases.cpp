#include "tests/runtime/optimizer_cases.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::test {

using optim::Optimizer;
using optim::RowSparseUpdate;

namespace {

Formula adam_formula(double rate, double b1, double b2, double eps, double decay, bool decoupled, bool amsgrad) {
  return [=](double p, double g, std::array<double, 3>& s, int t) {
    if (decoupled) {
      p -= rate * decay * p;
    } else {
      g += decay * p;
    }
    s[0] = b1 * s[0] + (1 - b1) * g;
    s[1] = b2 * s[1] + (1 - b2) * g * g;
    s[2] = std::max(s[2], s[1]);
    const double root = std::sqrt(amsgrad ? s[2] : s[1]) / std::sqrt(1 - std::pow(b2, t));
    return p - rate / (1 - std::pow(b1, t)) * s[0] / (root + eps);
  };
}

}  // namespace

std::vector<OptimizerCase> optimizer_cases() {
  return {
      {"adam",
       [](std::vector<Tensor> p, RowSparseUpdate rows, bool master) -> std::unique_ptr<Optimizer> {
         return std::make_unique<optim::Adam>(
             std::move(p),
             optim::AdamOptions{.rate = 0.1, .weight_decay = 0.2, .row_sparse = rows, .master_weights = master});
       },
       adam_formula(0.1, 0.9, 0.999, 1e-8, 0.2, false, false)},
      {"amsgrad",
       [](std::vector<Tensor> p, RowSparseUpdate rows, bool master) -> std::unique_ptr<Optimizer> {
         return std::make_unique<optim::Adam>(std::move(p), optim::AdamOptions{.rate = 0.1,
                                                                               .beta1 = 0.5,
                                                                               .beta2 = 0.6,
                                                                               .amsgrad = true,
                                                                               .row_sparse = rows,
                                                                               .master_weights = master});
       },
       adam_formula(0.1, 0.5, 0.6, 1e-8, 0, false, true)},
      {"adamw",
       [](std::vector<Tensor> p, RowSparseUpdate rows, bool master) -> std::unique_ptr<Optimizer> {
         return std::make_unique<optim::AdamW>(std::move(p), optim::AdamWOptions{.rate = 0.1,
                                                                                 .beta2 = 0.9,
                                                                                 .epsilon = 1e-3,
                                                                                 .weight_decay = 0.3,
                                                                                 .row_sparse = rows,
                                                                                 .master_weights = master});
       },
       adam_formula(0.1, 0.9, 0.9, 1e-3, 0.3, true, false)},
      {"adagrad",
       [](std::vector<Tensor> p, RowSparseUpdate rows, bool master) -> std::unique_ptr<Optimizer> {
         return std::make_unique<optim::Adagrad>(std::move(p), optim::AdagradOptions{.rate = 0.1,
                                                                                     .rate_decay = 0.5,
                                                                                     .weight_decay = 0.1,
                                                                                     .initial_accumulator = 0.25,
                                                                                     .row_sparse = rows,
                                                                                     .master_weights = master});
       },
       [](double p, double g, std::array<double, 3>& s, int t) {
         g += 0.1 * p;
         s[0] += g * g;
         return p - 0.1 / (1 + (t - 1) * 0.5) * g / (std::sqrt(s[0]) + 1e-10);
       },
       0.25},
      {"sgd",
       [](std::vector<Tensor> p, RowSparseUpdate rows, bool master) -> std::unique_ptr<Optimizer> {
         return std::make_unique<optim::Sgd>(std::move(p), optim::SgdOptions{.rate = 0.1,
                                                                             .momentum = 0.9,
                                                                             .dampening = 0.2,
                                                                             .weight_decay = 0.1,
                                                                             .row_sparse = rows,
                                                                             .master_weights = master});
       },
       [](double p, double g, std::array<double, 3>& s, int t) {
         g += 0.1 * p;
         s[0] = t == 1 ? g : 0.9 * s[0] + 0.8 * g;
         return p - 0.1 * s[0];
       }},
  };
}

}  // namespace ferry::test
