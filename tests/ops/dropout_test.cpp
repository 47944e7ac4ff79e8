// Dropout's mask: what it depends on, and what it costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>

#include <ferry/activations.h>
#include <ferry/device_guard.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::Each;

class Dropout : public OnBackend {};

std::vector<float> dropped(Runtime& runtime, const Tensor& x, double p) {
  runtime.manual_seed(9);
  return dropout(x, p).to_vector<float>();
}

TEST_P(Dropout, KeepsWhatUniformDrawsAtP) {
  const Tensor x = ones({3, 1001});
  const auto y = dropped(*runtime_, x, 0.25);
  runtime_->manual_seed(9);
  const auto drawn = uniform({3, 1001}).to_vector<float>();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], drawn[i] < 0.25f ? 0.0f : 1 / 0.75f) << i;
    kept += y[i] != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(y.size()), 0.75, 0.03);
}

TEST_P(Dropout, BackwardDropsTheSameElements) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Tensor x = ones({70, 13}, dtype).set_requires_grad();
    uniform({3});  // an odd place in the stream
    const Tensor y = dropout(x, 0.5);
    uniform({5});
    y.backward(ones({70, 13}, dtype));
    EXPECT_EQ(to_array(y).values, to_array(x.grad()).values);
    EXPECT_THAT(to_array(y).values, ::testing::AllOf(::testing::Contains(0), ::testing::Contains(2)));
  }
}

TEST_P(Dropout, DependsOnTheStreamAlone) {
  const Tensor x = ones({300, 401});
  const auto first = dropped(*runtime_, x, 0.5);
  const auto second = dropout(x, 0.5).to_vector<float>();
  EXPECT_NE(first, second);
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_EQ(dropped(*runtime_, x, 0.5), first);
  }
  const DeviceGuard<cpu> guard;
  EXPECT_EQ(dropped(*runtime_, x, 0.5), first);
  EXPECT_EQ(dropout(x, 0.5).to_vector<float>(), second);
}

// Memory order is not logical order: the mask follows the latter.
TEST_P(Dropout, DoesNotDependOnLayout) {
  const Tensor x = ones({40, 30});
  EXPECT_EQ(dropped(*runtime_, transpose(transpose(x) * 1.0), 0.5), dropped(*runtime_, x, 0.5));
}

TEST_P(Dropout, IsTheIdentityOutsideTraining) {
  const Tensor x = ones({4});
  runtime_->manual_seed(9);
  const auto next = uniform({4}).to_vector<float>();
  runtime_->manual_seed(9);
  EXPECT_EQ(dropout(x, 0.5, false).impl(), x.impl());
  EXPECT_EQ(dropout(x, 0).impl(), x.impl());
  EXPECT_EQ(uniform({4}).to_vector<float>(), next);  // nothing was drawn
  EXPECT_THAT(dropout(x, 1).to_vector<float>(), Each(0));
}

TEST_P(Dropout, ProbabilitiesOutsideZeroToOneAreErrors) {
  for (const double p : {-0.1, 1.1, std::nan("")}) {
    expect_errors<InvalidArgument>({{"p", [p] { dropout(of({2}), p); }, {"dropout", "p is"}},
                                    {"unused", [p] { dropout(of({2}), p, false); }, {"dropout", "p is"}}},
                                   "dropout_test.cpp");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Dropout, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
