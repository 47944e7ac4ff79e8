// Every op against its plain reference: on every backend, for all dtypes it takes, over shapes and memory layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/ops/op_list.h"
#include "src/runtime/runtime_core.h"
#include "tests/ops/op_case.h"
#include "tests/support/named_device.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

constexpr std::size_t kLayoutVariants = 5;

// Ops that no public function ends in: which tests run them.
const std::map<std::string_view, std::string_view>& ops_tested_elsewhere() {
  static const std::map<std::string_view, std::string_view> kElsewhere = {
      {"fill", "creation_test"},
      {"uniform", "creation_test"},
      {"normal", "creation_test"},
      {"arange", "creation_test"},
      {"coalesce", "row_sparse_test"},
      {"scatter_add_rows_", "row_sparse_test"},
      {"sgd_", "sgd_test"},
      {"sgd_rows_", "sgd_test"},
      {"adam_", "optimizer_test"},
      {"adam_rows_", "optimizer_test"},
      {"adamw_", "optimizer_test"},
      {"adamw_rows_", "optimizer_test"},
      {"adagrad_", "optimizer_test"},
      {"adagrad_rows_", "optimizer_test"},
      {"scale_", "optimizer_test"},
      {"unscale_", "grad_scaler_test"},
      {"clamp_", "optimizer_test"},
      {"square_sum", "optimizer_test"},
      {"running_average_", "batch_statistics_test"},
  };
  return kElsewhere;
}

struct Arguments {
  Tensors tensors;
  Arrays arrays;
};

// Input i lies in memory as the (variant + i)-th layout that fits its shape; every second call finds its float inputs
// on the runtime's default device already.
Arguments make_arguments(const OpCase& each, DType dtype, std::size_t variant, Random& random) {
  Arguments arguments;
  for (std::size_t i = 0; i < each.inputs.size(); ++i) {
    const Input& input = each.inputs[i];
    const DType type = input.dtype.value_or(dtype);
    const Layout& layout = layout_for(input.shape, variant + i);
    Array base = random_array(layout.base(input.shape), input.low, input.high, type, random);
    if (!input.fixed.empty() || (input.low == input.high && input.shape.product() == 0)) {
      arguments.tensors.push_back(to_tensor({input.shape, input.fixed}, type));
      arguments.arrays.push_back({input.shape, input.fixed});
      continue;
    }
    Tensor tensor = to_tensor(base, type);
    if (variant % 2 == 1 && is_floating(type)) tensor = tensor * 1.0;
    arguments.tensors.push_back(layout.view(tensor, input.shape));
    arguments.arrays.push_back(layout.view_array(base, input.shape));
  }
  return arguments;
}

void expect_close(const Array& result, const Array& expected, DType dtype, double scale) {
  ASSERT_EQ(result.shape, expected.shape) << to_string(result.shape) << " instead of " << to_string(expected.shape);
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double distance = std::abs(result.values[i] - expected.values[i]);
    ASSERT_LE(distance, rounding(dtype, std::max(scale, std::abs(expected.values[i]))))
        << "element " << i << " is " << result.values[i] << " instead of " << expected.values[i];
  }
}

// The reference's result, which is worked out once for all backends that give a call the same numbers.
const Array& reference(const OpCase& each, const std::string& call, const Arrays& arrays) {
  struct Known {
    Arrays arrays;
    Array result;
  };
  static std::map<std::string, Known> known;
  const auto same = [](const Array& a, const Array& b) { return a.shape == b.shape && a.values == b.values; };
  auto at = known.find(call);
  if (at == known.end() || !std::ranges::equal(at->second.arrays, arrays, same))
    at = known.insert_or_assign(call, Known{arrays, each.reference(arrays)}).first;
  return at->second.result;
}

void check_case(const OpCase& each, const std::string& name, DType dtype, std::size_t variant, Random& random) {
  try {
    const Arguments arguments = make_arguments(each, dtype, variant, random);
    const Tensor result = each.call(arguments.tensors);
    // The result is rounded to its own dtype, intermediate values to the inputs'.
    const bool narrower = is_floating(result.dtype()) && size_of(result.dtype()) < size_of(dtype);
    expect_close(to_array(result), reference(each, name, arguments.arrays), narrower ? result.dtype() : dtype,
                 each.scale);
  } catch (const Error& error) {
    FAIL() << error.what();
  }
}

class OpConformance : public ::testing::TestWithParam<std::tuple<Backend, std::string>> {};

TEST_P(OpConformance, MatchesPlainReference) {
  const auto& [backend, op] = GetParam();
  CheckedRuntime runtime(backend);
  Random random(1);
  for (const auto& [name, cases] : cases_by_op()) {
    if (name != op) continue;
    for (const OpCase& each : cases) {
      for (const DType dtype : each.dtypes) {
        for (std::size_t variant = 0; variant < kLayoutVariants; ++variant) {
          const std::string title =
              each.op + " " + each.variant + " " + std::string(name_of(dtype)) + " layout " + std::to_string(variant);
          SCOPED_TRACE(title);
          check_case(each, title, dtype, variant, random);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

std::vector<Backend> tested_backends() {
  if (const auto named = named_backend()) return {*named};
  return all_backends();
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : cases_by_op()) names.push_back(name);
  return names;
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Backend, std::string>>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, OpConformance,
                         ::testing::Combine(::testing::ValuesIn(tested_backends()), ::testing::ValuesIn(op_names())),
                         case_name);

TEST(OpCoverage, EveryOpHasACase) {
  std::set<std::string_view> covered;
  for (const auto& [name, cases] : cases_by_op()) covered.insert(name);
  for (const ops::OpSchema* schema : ops::all_ops()) {
    // Backward ops are run by the gradient test, which walks the same table.
    if (schema->name.find("_backward") != std::string_view::npos) continue;
    EXPECT_TRUE(covered.contains(schema->name) || ops_tested_elsewhere().contains(schema->name))
        << schema->name << " has no case";
  }
}

// Views have no kernel, and a transfer is the driver's copy.
TEST(OpCoverage, EveryOpHasAHostKernel) {
  CheckedRuntime runtime(cpu_backend());
  const std::vector<Kernel>& kernels = runtime->core()->cpu().kernels;
  for (const ops::OpSchema* schema : ops::all_ops()) {
    if (schema->infer == nullptr) continue;
    EXPECT_NE(kernels[static_cast<std::size_t>(schema->slot)], nullptr) << schema->name;
  }
}

TEST(OpCoverage, EveryCaseIsOfAnOp) {
  for (const auto& [name, cases] : cases_by_op()) EXPECT_NE(ops::find_op(name), nullptr) << name;
}

TEST(OpCoverage, EveryDifferentiableOpHasAGradientCase) {
  for (const ops::OpSchema* schema : ops::all_ops()) {
    // fill_ depends on nothing: its gradient is none.
    if (schema->gradient == nullptr || schema->name == "fill_") continue;
    bool found = false;
    for (const auto& [name, cases] : cases_by_op()) {
      for (const OpCase& each : cases) found = found || (name == schema->name && each.differentiable > 0);
    }
    EXPECT_TRUE(found) << schema->name;
  }
}

}  // namespace
}  // namespace ferry::test
