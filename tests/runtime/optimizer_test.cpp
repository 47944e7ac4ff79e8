// The steps of all optimizers against plain references, clipping and schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include <ferry/ops.h>
#include <ferry/optim.h>
#include <ferry/profiler.h>
#include <ferry/schedule.h>
#include "src/trace/trace_json.h"
#include "tests/runtime/optimizer_cases.h"
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using optim::Adagrad;
using optim::Adam;
using optim::AdamW;
using optim::ParameterGroup;
using optim::RowSparseUpdate;
using optim::Sgd;
using ::testing::Each;
using ::testing::ElementsAre;

class Optimizers : public OnBackend {};

TEST_P(Optimizers, DenseStepsMatchPlainReferences) {
  for (const OptimizerCase& each : optimizer_cases()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Random random(5);
      const Array start = random_array({3, 37}, -1, 1, dtype, random);
      const Tensor parameter = to_tensor(start, dtype).set_requires_grad();
      const auto optimizer = each.make({parameter}, RowSparseUpdate::lazy, true);
      std::vector<double> expected = start.values;
      std::vector<std::array<double, 3>> state(expected.size(), {each.initial, 0, 0});
      for (int step = 1; step <= 4; ++step) {
        const Array gradient = random_array({3, 37}, -1, 1, dtype, random);
        parameter.backward(to_tensor(gradient, dtype));
        optimizer->step();
        optimizer->zero_grad();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = each.formula(expected[i], gradient.values[i], state[i], step);
        }
      }
      const Array result = to_array(parameter);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(result.values[i], expected[i], rounding(dtype, 4)) << each.name << " " << i << name_of(dtype);
      }
    }
  }
}

// A table with gradients for some rows, by way of the embedding.
Tensor train_table(const OptimizerCase& each, GradientKind kind, RowSparseUpdate update) {
  Random random(6);
  const Tensor table = to_tensor(random_array({7, 3}, -1, 1, DType::f64, random), DType::f64).set_requires_grad();
  const auto optimizer = each.make({table}, update, false);
  for (const auto& ids : std::vector<std::vector<std::int64_t>>{{0, 5, 5}, {5, 2}, {6, 0, 0, 0}}) {
    const Array gradient = random_array({static_cast<std::int64_t>(ids.size()), 3}, -1, 1, DType::f64, random);
    embedding(table, from_vector(ids), kind).backward(to_tensor(gradient, DType::f64));
    optimizer->step();
    optimizer->zero_grad();
  }
  return table;
}

TEST_P(Optimizers, StrictRowsAreTheDenseResult) {
  for (const OptimizerCase& each : optimizer_cases()) {
    const auto dense = train_table(each, GradientKind::dense, RowSparseUpdate::strict).to_vector<double>();
    EXPECT_EQ(train_table(each, GradientKind::row_sparse, RowSparseUpdate::strict).to_vector<double>(), dense)
        << each.name;
  }
}

TEST_P(Optimizers, LazyRowsLeaveTheOthersAlone) {
  for (const OptimizerCase& each : optimizer_cases()) {
    Random random(6);
    const auto start = random_array({7, 3}, -1, 1, DType::f64, random).values;
    const auto lazy = train_table(each, GradientKind::row_sparse, RowSparseUpdate::lazy).to_vector<double>();
    const std::set<std::size_t> named = {0, 2, 5, 6};
    for (std::size_t i = 0; i < start.size(); ++i) {
      EXPECT_EQ(lazy[i] == start[i], !named.contains(i / 3)) << each.name << " " << i;
    }
  }
}

TEST_P(Optimizers, OneCallForAllParametersThatAgree) {
  std::vector<Tensor> parameters;
  Tensor loss = zeros({});
  for (std::int64_t i = 1; i <= 40; ++i) {
    parameters.push_back(full({i}, 1).set_requires_grad());
    loss = loss + sum(square(parameters.back()));
  }
  AdamW adamw(parameters);
  loss.backward();
  adamw.step();  // makes state
  std::ostringstream text;
  {
    Profiler profiler;
    adamw.step();
    profiler.write_trace(text);
  }
  const trace::Trace trace = trace::read_json(text.str(), "trace");
  const auto called = [&](std::string_view name) {
    return std::ranges::count_if(trace.ops, [&](const trace::OpRecord& op) { return trace.string(op.name) == name; });
  };
  EXPECT_EQ(called("adamw_"), 1);
  EXPECT_EQ(trace.ops.front().phase, trace::Phase::optimizer);
}

TEST_P(Optimizers, GroupsHaveTheirOptions) {
  const Tensor a = full({2}, 1).set_requires_grad(), b = full({2}, 1).set_requires_grad();
  Sgd sgd({ParameterGroup<optim::SgdOptions>{{a}, {.rate = 0.5}},
           ParameterGroup<optim::SgdOptions>{{b}, {.rate = 0.25, .weight_decay = 1}}});
  EXPECT_EQ(sgd.group_count(), 2u);
  sum(a + b).backward();
  sgd.step();
  EXPECT_THAT(a.to_vector<float>(), Each(0.5));
  EXPECT_THAT(b.to_vector<float>(), Each(0.5));
  sgd.set_rate(1, 0);
  EXPECT_EQ(sgd.rate(0), 0.5);
  EXPECT_EQ(sgd.rate(1), 0);
  sgd.step();
  EXPECT_THAT(a.to_vector<float>(), Each(0));
  EXPECT_THAT(b.to_vector<float>(), Each(0.5));
  EXPECT_THROW(sgd.set_rate(2, 1), InvalidArgument);
  EXPECT_THROW(sgd.set_rate(-1.0), InvalidArgument);
}

TEST_P(Optimizers, RefuseBadOptions) {
  const std::vector<Tensor> leaf{full({1}, 1).set_requires_grad()};
  EXPECT_THROW(Adam(leaf, {.rate = -1}), InvalidArgument);
  EXPECT_THROW(Adam(leaf, {.beta1 = 1}), InvalidArgument);
  EXPECT_THROW(AdamW(leaf, {.epsilon = -1}), InvalidArgument);
  EXPECT_THROW(Adagrad(leaf, {.rate_decay = -1}), InvalidArgument);
  EXPECT_THROW(Adam({leaf[0], leaf[0]}, {}), InvalidArgument);
  EXPECT_THROW(Adam(std::vector<Tensor>{Tensor()}), InvalidArgument);
}

// Gradients lie in other orders than their parameters, share memory with one another, or are expanded.
TEST_P(Optimizers, TakeGradientsInAnyLayout) {
  const auto run = [](bool plain) {
    const Tensor w = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}).set_requires_grad();
    const Tensor v = permute(from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}), {1, 0}).detach().set_requires_grad();
    Adam adam({w, v}, {.rate = 0.5});
    for (int step = 0; step < 2; ++step) {
      if (plain) {
        w.backward(from_vector<float>({1, 3, 5, 2, 4, 6}, {2, 3}));
        v.backward(ones({2, 3}));
      } else {
        transpose(w).backward(from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
        sum(v).backward();
      }
      adam.step();
      adam.zero_grad();
    }
    return std::pair(w.to_vector<float>(), v.to_vector<float>());
  };
  EXPECT_EQ(run(false), run(true));
}

TEST_P(Optimizers, ClippingByNorm) {
  Tensor a = full({3}, 1).set_requires_grad(), b = full({4}, 1).set_requires_grad(),
         unused = ones({2}).set_requires_grad();
  Tensor table = zeros({5, 2}).set_requires_grad();
  const Tensor shared = full({4}, 2);  // the caller's: not written
  const auto backward = [&] {
    for (Tensor* each : {&a, &b, &table}) each->zero_grad();
    sum(a * 2.0).backward();
    b.backward(shared);
    embedding(table, from_vector<std::int64_t>({1, 1}), GradientKind::row_sparse).backward(ones({2, 2}));
  };
  backward();
  // 3 · 4 + 4 · 4 + 2 · 4 = 36
  const Tensor norm = optim::clip_grad_norm({a, b, unused, table}, 3);
  EXPECT_NEAR(norm.item(), 6, 1e-5);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 1, 1e-5);
  EXPECT_NEAR(b.grad().to_vector<float>()[3], 1, 1e-5);
  ASSERT_TRUE(table.row_sparse_grad().has_value());
  EXPECT_NEAR(table.grad().to_vector<float>()[2], 1, 1e-5);
  EXPECT_THAT(shared.to_vector<float>(), Each(2));
  EXPECT_FALSE(unused.has_grad());

  backward();
  EXPECT_NEAR(optim::clip_grad_norm({a, b, table}, 60).item(), 6, 1e-5);
  EXPECT_THAT(a.grad().to_vector<float>(), Each(2));

  backward();
  optim::clip_grad_value({a, b, table}, 0.5);
  EXPECT_THAT(a.grad().to_vector<float>(), Each(0.5));
  EXPECT_THAT(shared.to_vector<float>(), Each(2));
  EXPECT_NEAR(table.grad().to_vector<float>()[2], 0.5, 1e-6);
  EXPECT_THROW(optim::clip_grad_norm({a}, 0), InvalidArgument);
  EXPECT_THROW(optim::clip_grad_value({a}, -1), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, each_backend(), backend_name);

class Schedules : public OnSim {
 protected:
  static std::vector<double> first(const optim::Schedule& schedule, std::int64_t count) {
    std::vector<double> factors;
    for (std::int64_t step = 0; step < count; ++step) factors.push_back(schedule(step));
    return factors;
  }
  static auto near(double value) { return ::testing::DoubleNear(value, 1e-12); }
};

TEST_F(Schedules, Factors) {
  EXPECT_THAT(first(optim::step_decay(2, 0.5), 5), ElementsAre(1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(first(optim::multi_step({1, 3}, 0.5), 5), ElementsAre(1, 0.5, 0.5, 0.25, 0.25));
  EXPECT_THAT(first(optim::exponential(0.5), 3), ElementsAre(1, 0.5, 0.25));
  EXPECT_THAT(first(optim::cosine(2, 0.5), 4), ElementsAre(1, near(0.75), near(0.5), near(0.5)));
  EXPECT_THAT(first(optim::linear_ramp(2, 0.5), 4), ElementsAre(0.5, 0.75, 1, 1));
  EXPECT_THAT(first(optim::warm_up(2, optim::exponential(0.5), 0.5), 5), ElementsAre(0.5, 0.75, 1, 0.5, 0.25));
  const auto cycle = first(optim::one_cycle({.steps = 10, .rising = 0.5, .start_divisor = 4, .final_divisor = 2}), 12);
  EXPECT_THAT(cycle[0], near(0.25));
  EXPECT_THAT(cycle[2], near(0.625));
  EXPECT_THAT(cycle[4], near(1));
  EXPECT_THAT(cycle[9], near(0.125));
  EXPECT_THAT(cycle[11], near(0.125));
  EXPECT_THROW(optim::cosine(0), InvalidArgument);
  EXPECT_THROW(optim::multi_step({3, 1}), InvalidArgument);
}

TEST_F(Schedules, SetTheRatesOfAllGroups) {
  const Tensor a = ones({1}).set_requires_grad(), b = ones({1}).set_requires_grad();
  Sgd sgd({ParameterGroup<optim::SgdOptions>{{a}, {.rate = 1}}, ParameterGroup<optim::SgdOptions>{{b}, {.rate = 0.5}}});
  optim::RateSchedule schedule(sgd, [](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); });
  EXPECT_EQ(sgd.rate(1), 0.5);
  schedule.step();
  EXPECT_EQ(sgd.rate(0), 0.5);
  EXPECT_EQ(sgd.rate(1), 0.25);
  schedule.set_position(3);
  EXPECT_EQ(sgd.rate(0), 0.25);
  EXPECT_EQ(schedule.position(), 3);
}

}  // namespace
}  // namespace ferry::test
