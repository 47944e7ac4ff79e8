#include "tests/autograd/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ferry/no_grad.h>
#include <ferry/ops.h>

namespace ferry::test {
namespace {

constexpr double kStep = 1e-5;
constexpr std::size_t kLookedAt = 8;

std::vector<Tensor> tensors_of(const std::vector<Leaf>& leaves) {
  std::vector<Tensor> tensors;
  for (const Leaf& leaf : leaves) tensors.push_back(to_tensor(leaf.values, leaf.dtype));
  return tensors;
}

double value(const std::vector<Leaf>& leaves, const Graph& graph, const Array& weights) {
  const NoGrad no_grad;
  const Array result = to_array(graph(tensors_of(leaves)));
  double total = 0;
  for (std::size_t i = 0; i < result.values.size(); ++i) total += result.values[i] * weights.values[i];
  return total;
}

double slope(std::vector<Leaf> leaves, std::size_t leaf, std::size_t element, const Graph& graph,
             const Array& weights) {
  double& at = leaves[leaf].values.values[element];
  const double middle = at;
  at = middle + kStep;
  const double above = value(leaves, graph, weights);
  at = middle - kStep;
  return (above - value(leaves, graph, weights)) / (2 * kStep);
}

}  // namespace

void check_gradients(const std::vector<Leaf>& leaves, const Graph& graph, Random& random, double tolerance) {
  std::vector<Tensor> tensors = tensors_of(leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].checked) tensors[i].set_requires_grad();
  }
  const Tensor result = graph(tensors);
  ASSERT_TRUE(result.requires_grad());
  const Array weights = random_array(result.shape(), -1, 1, result.dtype(), random);
  result.backward(to_tensor(weights, result.dtype()));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].checked) continue;
    const Tensor gradient = tensors[i].grad();
    ASSERT_TRUE(gradient.defined()) << "input " << i << " has no gradient";
    ASSERT_EQ(gradient.shape(), tensors[i].shape());
    ASSERT_EQ(gradient.dtype(), tensors[i].dtype());
    const Array found = to_array(gradient);
    const std::size_t count = found.values.size();
    for (std::size_t n = 0; n < std::min(count, kLookedAt); ++n) {
      const std::size_t element = count <= kLookedAt ? n : random() % count;
      const double expected = slope(leaves, i, element, graph, weights);
      ASSERT_NEAR(found.values[element], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << i << ", element " << element;
    }
  }
}

}  // namespace ferry::test
