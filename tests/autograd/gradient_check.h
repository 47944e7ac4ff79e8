// Analytic gradients against central finite differences in f64.
#pragma once

#include <functional>
#include <vector>

#include <ferry/tensor.h>
#include "tests/support/generators.h"

namespace ferry::test {

// One leaf of a graph under test: its values, and whether its gradient is checked.
struct Leaf {
  Array values;
  DType dtype = DType::f64;
  bool checked = true;
};

using Graph = std::function<Tensor(const std::vector<Tensor>&)>;

// Adds a failure for each element looked at (all of a small leaf, some of a large one) whose gradient is not the slope
// of sum(weights * graph(leaves)) for random weights.
void check_gradients(const std::vector<Leaf>& leaves, const Graph& graph, Random& random, double tolerance = 1e-6);

}  // namespace ferry::test
