// The gradient of every differentiable argument of every op, over the shapes and layouts of the op cases.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include <ferry/profiler.h>
#include "src/ops/op_list.h"
#include "tests/autograd/gradient_check.h"
#include "tests/ops/op_case.h"
#include "tests/support/named_device.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

bool takes_f64(const OpCase& each) { return std::ranges::find(each.dtypes, DType::f64) != each.dtypes.end(); }

// The case's inputs as leaves, seen by the op through views.
void check_case(const OpCase& each, std::size_t variant, Random& random) {
  std::vector<Leaf> leaves;
  std::vector<const Layout*> views;
  for (std::size_t i = 0; i < each.inputs.size(); ++i) {
    const Input& input = each.inputs[i];
    const DType dtype = input.dtype.value_or(DType::f64);
    const bool fixed = !input.fixed.empty() || (input.low == input.high && input.shape.product() == 0);
    const Layout& layout = fixed ? layouts()[0] : layout_for(input.shape, variant + i);
    const Array values = fixed ? Array{input.shape, input.fixed}
                               : random_array(layout.base(input.shape), input.low, input.high, dtype, random);
    leaves.push_back({values, dtype, i < each.differentiable && dtype == DType::f64});
    views.push_back(&layout);
  }
  check_gradients(
      leaves,
      [&](const Tensors& bases) {
        Tensors inputs;
        for (std::size_t i = 0; i < bases.size(); ++i) {
          inputs.push_back(views[i]->view(bases[i], each.inputs[i].shape));
        }
        return each.call(inputs);
      },
      random);
}

class OpGradient : public ::testing::TestWithParam<std::string> {};

TEST_P(OpGradient, MatchesFiniteDifferences) {
  CheckedRuntime runtime(named_backend().value_or(sim_backend()));
  Random random(2);
  for (const auto& [name, cases] : cases_by_op()) {
    if (name != GetParam()) continue;
    for (const OpCase& each : cases) {
      if (each.differentiable == 0 || !takes_f64(each)) continue;
      for (std::size_t variant = 0; variant < 5; ++variant) {
        SCOPED_TRACE(each.op + " " + each.variant + " layout " + std::to_string(variant));
        check_case(each, variant, random);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

std::vector<std::string> differentiable_ops() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : cases_by_op()) {
    if (ops::find_op(name)->gradient != nullptr) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient, ::testing::ValuesIn(differentiable_ops()),
                         [](const auto& test) { return test.param; });

// Backward ops have no cases of their own: the cases' backward passes must reach each of them.
TEST(GradientCoverage, EveryBackwardOpRuns) {
  CheckedRuntime runtime(cpu_backend());
  Random random(3);
  Profiler profiler;
  for (const auto& [name, cases] : cases_by_op()) {
    for (const OpCase& each : cases) {
      if (each.differentiable > 0 && takes_f64(each)) check_case(each, 0, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  // Over a gradient that nobody else holds.
  const Tensor x = uniform({4}, -1, 1).set_requires_grad();
  for (const Tensor& y : {relu(x), tanh(x), sigmoid(x)}) sum(y * y).backward();
  profiler.stop();
  std::ostringstream out;
  profiler.write_trace(out);
  const std::string text = out.str();
  for (const ops::OpSchema* schema : ops::all_ops()) {
    if (schema->name.find("_backward") == std::string_view::npos) continue;
    EXPECT_NE(text.find('"' + std::string(schema->name) + '"'), std::string::npos) << schema->name << " never ran";
  }
}

}  // namespace
}  // namespace ferry::test
