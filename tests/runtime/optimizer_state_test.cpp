// What optimizers keep between steps: master weights, state that is saved, placed and left alone by failed steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ferry/device_guard.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include <ferry/random.h>
#include "tests/runtime/optimizer_cases.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using optim::Adam;
using optim::AdamW;
using optim::Optimizer;
using optim::RowSparseUpdate;
using optim::Sgd;
using ::testing::Each;
using ::testing::HasSubstr;

class OptimizerState : public OnBackend {};

TEST_P(OptimizerState, MasterWeightsKeepWhatRoundingWouldLose) {
  for (const bool master : {false, true}) {
    const Tensor p = full({4}, 1, DType::bf16).set_requires_grad();
    Sgd sgd(std::vector<Tensor>{p}, {.rate = 1.0 / 1024, .master_weights = master});
    for (int step = 0; step < 8; ++step) {
      p.backward(ones({4}, DType::bf16));
      sgd.step();
      sgd.zero_grad();
    }
    // 1 - 1/1024 rounds to 1 in bf16, 1 - 8/1024 does not.
    EXPECT_THAT(p.to(DType::f32).to_vector<float>(), Each(master ? 1 - 8.0f / 1024 : 1.0f));
    if (!master) continue;
    EXPECT_EQ(sgd.state()[0].name, "master.0");
    EXPECT_EQ(sgd.state()[0].tensor.dtype(), DType::f32);
    {
      const NoGrad no_grad;
      Tensor writable = p;
      writable.fill_(3);  // counts, though the master knows nothing of it
    }
    p.backward(ones({4}, DType::bf16));
    sgd.step();
    EXPECT_THAT(p.to(DType::f32).to_vector<float>(), Each(3));
  }
}

TEST_P(OptimizerState, StateTravels) {
  for (const OptimizerCase& each : optimizer_cases()) {
    const auto run = [&](bool interrupted) {
      const Tensor x = full({3}, 1, DType::bf16).set_requires_grad(), y = full({2, 2}, 2).set_requires_grad();
      auto optimizer = each.make({x, y}, RowSparseUpdate::lazy, true);
      for (int step = 0; step < 4; ++step) {
        (sum(square(x)).to(DType::f32) + sum(square(y))).backward();
        optimizer->step();
        optimizer->zero_grad();
        if (!interrupted) continue;
        std::vector<nn::NamedTensor> saved;
        for (const auto& [name, tensor] : optimizer->state()) saved.push_back({name, tensor * 1});
        optimizer = each.make({x, y}, RowSparseUpdate::lazy, true);
        EXPECT_TRUE(optimizer->state().empty());
        optimizer->set_state(saved);
      }
      return std::pair(x.to(DType::f32).to_vector<float>(), y.to_vector<float>());
    };
    EXPECT_EQ(run(true), run(false)) << each.name;
  }
}

TEST_P(OptimizerState, ForeignStateIsRefusedWhole) {
  const Tensor x = full({3}, 1).set_requires_grad();
  Adam adam(std::vector<Tensor>{x});
  sum(x).backward();
  adam.step();
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                adam.set_state({{"velocity.0", zeros({3})}});
              }),
              HasSubstr("velocity.0"));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                adam.set_state({{"exp_avg.1", zeros({3})}});
              }),
              HasSubstr("exp_avg.1"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                adam.set_state({{"step.0", full({1}, 7)}, {"exp_avg.0", zeros({2})}});
              }),
              HasSubstr("[2]"));
  EXPECT_EQ(adam.state().back().tensor.item(), 1);
}

TEST_P(OptimizerState, StateOfGpuParametersMayLiveOnTheCpu) {
  const auto run = [](bool offloaded) {
    Tensor x = uniform({64}, 0.5, 1).set_requires_grad();
    std::unique_ptr<Optimizer> adam;
    if (offloaded) {
      const DeviceGuard<cpu> guard;
      adam = std::make_unique<AdamW>(std::vector<Tensor>{x});
    } else {
      adam = std::make_unique<AdamW>(std::vector<Tensor>{x});
    }
    const Device home = x.device();
    for (int step = 0; step < 3; ++step) {
      sum(square(x)).backward();
      adam->step();
      adam->zero_grad();
      EXPECT_EQ(x.device(), home);
    }
    EXPECT_EQ(adam->state()[0].tensor.device(), offloaded ? cpu::device : home);
    return x.to_vector<float>();
  };
  set_random_state({});
  const auto expected = run(false);
  set_random_state({});
  EXPECT_EQ(run(true), expected);
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerState, each_backend(), backend_name);

// An allocation that fails before the update leaves parameters as they were, and the step can be taken again.
TEST(OptimizerFaults, AFailedStepHasChangedNothing) {
  for (const bool offloaded : {false, true}) {
    for (const DriverCall call : {DriverCall::device_allocation, DriverCall::pinned_allocation}) {
      const auto run = [&](std::int64_t n) {
        CheckedRuntime runtime(sim_backend());
        bool failed = false;
        std::vector<std::vector<float>> values;
        {
          std::vector<Tensor> parameters;
          for (int i = 0; i < 3; ++i) {
            parameters.push_back(ones({6 << 20}) * (i + 1.0));
            parameters.back() = parameters.back().detach().set_requires_grad();
          }
          std::optional<DeviceGuard<cpu>> guard;
          if (offloaded) guard.emplace();
          AdamW adamw(parameters);
          guard.reset();
          sum(parameters[0] * parameters[1] * parameters[2]).backward();
          runtime->synchronize();
          runtime->empty_cache(gpu::device);
          if (n > 0) runtime.gpu_faults().fail(call, n, Lasting::until_cleared);
          try {
            adamw.step();
          } catch (const OutOfMemory&) {
            failed = true;
          }
          runtime.gpu_faults().clear();
          if (failed) {
            for (std::size_t i = 0; i < 3; ++i) {
              EXPECT_EQ(parameters[i].to_vector<float>().front(), static_cast<float>(i + 1)) << n;
            }
            EXPECT_TRUE(adamw.state().empty());
            adamw.step();
          }
          for (const Tensor& each : parameters) values.push_back({each.to_vector<float>().back()});
        }
        return std::pair(failed, values);
      };
      const auto expected = run(0).second;
      bool failed = true;
      for (std::int64_t n = 1; failed && n < 50; ++n) {
        const auto [now, values] = run(n);
        failed = now;
        EXPECT_EQ(values, expected) << n;
      }
      EXPECT_FALSE(failed);
    }
  }
}

}  // namespace
}  // namespace ferry::test
