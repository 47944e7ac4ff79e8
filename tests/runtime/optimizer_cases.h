// Every optimizer with the formula that its steps follow.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ferry/optim.h>

namespace ferry::test {

// One element under a formula: new parameter from parameter, gradient, state and the number of the step.
using Formula = std::function<double(double p, double g, std::array<double, 3>& s, int t)>;

struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>, optim::RowSparseUpdate, bool master)> make;
  Formula formula;
  double initial = 0;
};

std::vector<OptimizerCase> optimizer_cases();

}  // namespace ferry::test
