// GradScaler: scaling, overflow, the schedule of the scale, accumulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ferry/autocast.h>
#include <ferry/grad_scaler.h>
#include <ferry/ops.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using optim::Sgd;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Scaler : public OnBackend {};

TEST_P(Scaler, GradientsAreScaledBackBeforeTheStep) {
  const Tensor x = full({3}, 1).set_requires_grad();
  Sgd sgd(std::vector<Tensor>{x}, {.rate = 1});
  GradScaler scaler;
  const Tensor loss = scaler.scale(sum(x * 0.25));
  EXPECT_EQ(loss.item(), 0.75 * 65536);
  loss.backward();
  EXPECT_THAT(x.grad().to_vector<float>(), Each(0.25 * 65536));
  scaler.unscale_(sgd);
  EXPECT_THAT(x.grad().to_vector<float>(), Each(0.25));
  EXPECT_THROW(scaler.unscale_(sgd), InvalidArgument);
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_THROW(scaler.step(sgd), InvalidArgument);
  scaler.update();
  EXPECT_THAT(x.to_vector<float>(), Each(0.75));
}

TEST_P(Scaler, OverflowSkipsTheStepAndLowersTheScale) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    Tensor x = full({3}, 1).set_requires_grad(), y = full({2}, 1).set_requires_grad();
    Sgd sgd({x, y}, {.rate = 1});
    GradScaler scaler({.initial_scale = 8, .growth_interval = 2});
    const auto step = [&](float value) {
      sgd.zero_grad();
      x.backward(from_vector<float>({1, 1, 1}));
      y.backward(from_vector<float>({1, value}));
      const bool taken = scaler.step(sgd);
      scaler.update();
      return taken;
    };
    EXPECT_FALSE(step(bad));
    EXPECT_EQ(scaler.scale_factor(), 4);
    EXPECT_THAT(x.to_vector<float>(), Each(1));
    EXPECT_TRUE(step(1));
    EXPECT_EQ(scaler.scale_factor(), 4);
    EXPECT_TRUE(step(1));
    EXPECT_EQ(scaler.scale_factor(), 8);
    EXPECT_FALSE(step(bad));
    EXPECT_EQ(scaler.scale_factor(), 4);
  }
}

TEST_P(Scaler, RowSparseGradientsAreLookedAt) {
  for (const bool overflows : {false, true}) {
    Tensor table = zeros({4, 2}).set_requires_grad();
    Sgd sgd(std::vector<Tensor>{table}, {.rate = 1});
    GradScaler scaler({.initial_scale = 2});
    embedding(table, from_vector<std::int64_t>({1, 1}), GradientKind::row_sparse)
        .backward(from_vector<float>({2, 2, 2, overflows ? kInfinity : 2}, {2, 2}));
    EXPECT_EQ(scaler.step(sgd), !overflows);
    EXPECT_THAT(table.to_vector<float>(),
                overflows ? ElementsAre(0, 0, 0, 0, 0, 0, 0, 0) : ElementsAre(0, 0, -2, -2, 0, 0, 0, 0));
  }
}

TEST_P(Scaler, GradientsThatOthersSeeAreNotWritten) {
  const Tensor x = ones({2}).set_requires_grad(), y = ones({2}).set_requires_grad();
  const Tensor gradient = full({2}, 4);
  (x + y).backward(gradient);  // one gradient for both
  Sgd sgd({x, y}, {.rate = 1});
  GradScaler scaler({.initial_scale = 4});
  scaler.unscale_(sgd);
  EXPECT_THAT(x.grad().to_vector<float>(), Each(1));
  EXPECT_THAT(y.grad().to_vector<float>(), Each(1));
  EXPECT_THAT(gradient.to_vector<float>(), Each(4));
}

TEST_P(Scaler, StateTravels) {
  GradScaler scaler({.initial_scale = 8, .growth_interval = 3}), other({.growth_interval = 3});
  scaler.update();
  scaler.update();
  other.set_state(scaler.state());
  EXPECT_EQ(other.scale_factor(), 8);
  other.update();
  EXPECT_EQ(other.scale_factor(), 16);
  EXPECT_THROW(other.set_state({}), InvalidArgument);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), InvalidArgument);
  GradScaler off({.enabled = false});
  EXPECT_EQ(off.scale_factor(), 1);
}

// Micro-batches under one scale give the gradients of the whole batch, in f32 and with 16-bit products.
TEST_P(Scaler, AccumulationIsTheWholeBatch) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto gradient = [&](std::int64_t micro_batches) {
      const Tensor x = reshape(arange(0, 32, 1, DType::f32), {8, 4}) * 0.0625;
      const Tensor weight = full({2, 4}, 0.5).set_requires_grad();
      Sgd sgd(std::vector<Tensor>{weight}, {.rate = 1});
      GradScaler scaler({.initial_scale = 256});
      const std::int64_t rows = 8 / micro_batches;
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        Tensor loss;
        {
          const Autocast autocast({.dtype = dtype == DType::f32 ? DType::bf16 : dtype, .enabled = dtype != DType::f32});
          loss = mean(square(linear(narrow(x, 0, i * rows, rows), weight)));
        }
        scaler.scale(loss * (1.0 / static_cast<double>(micro_batches))).backward();
      }
      scaler.unscale_(sgd);
      return weight.grad().to_vector<float>();
    };
    const auto whole = gradient(1), parts = gradient(4);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(parts[i], whole[i], dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2) << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Scaler, each_backend(), backend_name);

TEST(ScalerTimingOnly, SeesNoOverflow) {
  CheckedRuntime runtime(timing_only_backend());
  const Tensor x = ones({4}).set_requires_grad();
  Sgd sgd(std::vector<Tensor>{x}, {.rate = 1});
  GradScaler scaler;
  scaler.scale(sum(x)).backward();
  EXPECT_TRUE(scaler.step(sgd));
  scaler.update();
  EXPECT_EQ(scaler.scale_factor(), 65536);
}

}  // namespace
}  // namespace ferry::test
