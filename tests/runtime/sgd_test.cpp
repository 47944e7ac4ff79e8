// SGD against a plain reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using optim::Sgd;
using optim::SgdOptions;
using ::testing::HasSubstr;

// One element's parameter and velocity.
struct Element {
  double parameter = 0, velocity = 0;
  bool fresh = true;

  void update(double gradient, const SgdOptions& options) {
    gradient += options.weight_decay * parameter;
    if (options.momentum > 0) {
      velocity = fresh ? gradient : options.momentum * velocity + (1 - options.dampening) * gradient;
      gradient = options.nesterov ? gradient + options.momentum * velocity : velocity;
    }
    fresh = false;
    parameter -= options.rate * gradient;
  }
};

const std::vector<SgdOptions>& option_sets() {
  static const std::vector<SgdOptions> kSets = {
      {.rate = 0.5},
      {.rate = 0.1, .weight_decay = 0.2},
      {.rate = 0.1, .momentum = 0.9},
      {.rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1},
      {.rate = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true},
  };
  return kSets;
}

class SgdSteps : public OnBackend {};

TEST_P(SgdSteps, DenseMatchPlainReference) {
  for (const SgdOptions& options : option_sets()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Random random(5);
      const Array start = random_array({3, 37}, -1, 1, dtype, random);
      std::vector<Element> expected;
      for (const double value : start.values) expected.push_back({value});
      const Tensor parameter = to_tensor(start, dtype).set_requires_grad();
      Sgd sgd(std::vector<Tensor>{parameter}, options);
      for (int step = 0; step < 3; ++step) {
        const Array gradient = random_array({3, 37}, -1, 1, dtype, random);
        parameter.backward(to_tensor(gradient, dtype));
        sgd.step();
        sgd.zero_grad();
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i].update(gradient.values[i], options);
      }
      const Array result = to_array(parameter);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(result.values[i], expected[i].parameter, rounding(dtype, 4)) << i << " " << name_of(dtype);
      }
    }
  }
}

// Rows that a gradient does not name are not touched: neither by decay nor by momentum.
TEST_P(SgdSteps, RowsMatchPlainReference) {
  for (const SgdOptions& options : option_sets()) {
    Random random(6);
    const Array start = random_array({7, 3}, -1, 1, DType::f64, random);
    std::vector<Element> expected;
    // A velocity starts as zeros of the whole table, so a row's first step counts dampening.
    for (const double value : start.values) expected.push_back({value, 0, false});
    const Tensor table = to_tensor(start, DType::f64).set_requires_grad();
    Sgd sgd(std::vector<Tensor>{table}, options);
    for (const auto& ids : std::vector<std::vector<std::int64_t>>{{0, 5, 5}, {5, 2}, {}, {6, 0, 0, 0}}) {
      const auto count = static_cast<std::int64_t>(ids.size());
      const Array gradient = random_array({count, 3}, -1, 1, DType::f64, random);
      embedding(table, from_vector(ids), GradientKind::row_sparse).backward(to_tensor(gradient, DType::f64));
      ASSERT_TRUE(table.row_sparse_grad().has_value());
      sgd.step();
      sgd.zero_grad();
      for (const std::int64_t row : std::set<std::int64_t>(ids.begin(), ids.end())) {
        for (std::int64_t d = 0; d < 3; ++d) {
          double total = 0;
          for (std::int64_t i = 0; i < count; ++i) {
            if (ids[static_cast<std::size_t>(i)] == row) total += gradient.at({i, d});
          }
          expected[static_cast<std::size_t>(row * 3 + d)].update(total, options);
        }
      }
    }
    const Array result = to_array(table);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(result.values[i], expected[i].parameter, 1e-12) << i;
  }
}

TEST_P(SgdSteps, SkipWhatHasNoGradient) {
  const Tensor used = full({2}, 1).set_requires_grad(), unused = full({2}, 1).set_requires_grad();
  Sgd sgd({used, unused}, {.rate = 1, .momentum = 0.5, .weight_decay = 1});
  sum(used).backward();
  sgd.step();
  EXPECT_THAT(used.to_vector<float>(), ::testing::Each(-1));
  EXPECT_THAT(unused.to_vector<float>(), ::testing::Each(1));
  EXPECT_EQ(sgd.state().size(), 1u);
}

TEST_P(SgdSteps, AreInvisibleToTheGraphAndSeenByIt) {
  const Tensor x = full({2}, 3).set_requires_grad();
  Sgd sgd(std::vector<Tensor>{x}, {.rate = 1});
  const Tensor stale = sum(x * x);
  sum(x).backward();
  sgd.step();
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_THAT(message_of<InvalidArgument>([&] { stale.backward(); }), HasSubstr("in place"));
}

TEST_P(SgdSteps, StateTravels) {
  const auto run = [](bool interrupted) {
    const Tensor x = full({3}, 1, DType::f64).set_requires_grad();
    auto sgd = std::make_unique<Sgd>(std::vector<Tensor>{x}, SgdOptions{.rate = 0.1, .momentum = 0.9});
    for (int step = 0; step < 4; ++step) {
      sum(x * x).backward();
      sgd->step();
      sgd->zero_grad();
      if (!interrupted) continue;
      const auto state = sgd->state();
      sgd = std::make_unique<Sgd>(std::vector<Tensor>{x}, SgdOptions{.rate = 0.1, .momentum = 0.9});
      sgd->set_state(state);
    }
    return x.to_vector<double>();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(SgdSteps, RefuseBadOptions) {
  const std::vector<Tensor> leaf{full({1}, 1).set_requires_grad()};
  EXPECT_THROW(Sgd(leaf, {.rate = -1}), InvalidArgument);
  EXPECT_THROW(Sgd(leaf, {.momentum = -1}), InvalidArgument);
  EXPECT_THROW(Sgd(leaf, {.weight_decay = -1}), InvalidArgument);
  EXPECT_THROW(Sgd(leaf, {.nesterov = true}), InvalidArgument);
  EXPECT_THROW(Sgd(std::vector<Tensor>{full({1}, 1)}, {}), InvalidArgument);
  EXPECT_THROW(Sgd(std::vector<Tensor>{leaf[0] * 2.0}, {}), InvalidArgument);
  EXPECT_THROW(Sgd(std::vector<Tensor>{Tensor()}, {}), InvalidArgument);
}

TEST_P(SgdSteps, UpdateWhereTheParameterLives) {
  Tensor x;
  {
    const DeviceGuard<cpu> guard;
    x = full({3}, 1).set_requires_grad();
  }
  Sgd sgd(std::vector<Tensor>{x}, {.rate = 0.5, .momentum = 0.9});
  x.backward(full({3}, 2));  // a gradient from the default device
  sgd.step();
  EXPECT_EQ(x.device(), cpu::device);
  EXPECT_EQ(sgd.state()[0].tensor.device(), cpu::device);
  EXPECT_THAT(x.to_vector<float>(), ::testing::Each(0));
}

INSTANTIATE_TEST_SUITE_P(All, SgdSteps, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
