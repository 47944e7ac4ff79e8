// DeviceGuard: which device an op runs on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include "tests/runtime/training_step.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Device here() { return zeros({1}).device(); }

class Guard : public OnSim {};

TEST_F(Guard, InnermostWinsAndTheOuterComesBack) {
  EXPECT_EQ(here(), gpu::device);
  {
    const DeviceGuard<cpu> outer;
    EXPECT_EQ(here(), cpu::device);
    {
      const DeviceGuard<gpu> inner;
      EXPECT_EQ(here(), gpu::device);
      {
        const DeviceGuard guard{"cpu"};
        EXPECT_EQ(here(), cpu::device);
      }
      EXPECT_EQ(here(), gpu::device);
    }
    EXPECT_EQ(here(), cpu::device);
  }
  EXPECT_EQ(here(), gpu::device);
}

TEST_F(Guard, NoPreferenceGivesTheDefaultBack) {
  const DeviceGuard<cpu> outer;
  const DeviceGuard inner{""};
  EXPECT_EQ(here(), gpu::device);
}

TEST_F(Guard, TextTagsAndDevicesNameDevices) {
  const std::string text = "gpu:0";
  static_assert(std::is_same_v<decltype(DeviceGuard{"cpu"}), DeviceGuard<void>>);
  static_assert(std::is_same_v<decltype(DeviceGuard{cpu::device}), DeviceGuard<void>>);
  static_assert(std::is_same_v<decltype(DeviceGuard{std::string_view("cpu")}), DeviceGuard<void>>);
  const DeviceGuard<cpu> outer;
  {
    const DeviceGuard guard{"gpu"};
    EXPECT_EQ(here(), gpu::device);
  }
  {
    const DeviceGuard<> guard{text};
    EXPECT_EQ(here(), gpu::device);
  }
  {
    const DeviceGuard guard{gpu::device};
    EXPECT_EQ(here(), gpu::device);
  }
}

TEST_F(Guard, ExceptionsRestoreTheOuter) {
  const DeviceGuard<cpu> outer;
  try {
    const DeviceGuard<gpu> inner;
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(here(), cpu::device);
  EXPECT_THROW(DeviceGuard<> guard{"gpu:7"}, InvalidArgument);
  EXPECT_THROW(DeviceGuard<> guard{"nonsense"}, InvalidArgument);
  EXPECT_EQ(here(), cpu::device);
}

TEST_F(Guard, ErrorsSayWhatIsLegal) {
  EXPECT_THAT(message_of<InvalidArgument>([] { DeviceGuard<> guard{"gpu:7"}; }),
              AllOf(HasSubstr("gpu:7"), HasSubstr("cpu"), HasSubstr("gpu:0"), HasSubstr("rtx2080ti")));
  for (const char* text : {"cpu:1", "nonsense", "GPU", "gpu:", "gpu:-1", "gpu:x", "gpu:1000", " cpu", "cuda"}) {
    EXPECT_THAT(message_of<InvalidArgument>([&] { DeviceGuard<> guard{text}; }),
                AllOf(HasSubstr(std::string("'") + text + "'"), HasSubstr("cpu"), HasSubstr("gpu")))
        << text;
  }
  for (const Device device : {Device{DeviceType::gpu, -1}, Device{DeviceType::cpu, 1}}) {
    EXPECT_THROW(DeviceGuard<> guard{device}, InvalidArgument);
  }
}

TEST(GuardOnTheCpuAlone, ThereIsNoGpu) {
  CheckedRuntime runtime(cpu_backend());
  EXPECT_THAT(message_of<InvalidArgument>([] { DeviceGuard<gpu> guard; }),
              AllOf(HasSubstr("gpu:0"), HasSubstr("legal here: cpu"), Not(HasSubstr("gpu (="))));
  EXPECT_THROW(DeviceGuard<> guard{"gpu"}, InvalidArgument);
  const DeviceGuard guard{"cpu"};
  EXPECT_EQ(here(), cpu::device);
}

TEST(GuardOfTwoGpus, EachHasItsIndex) {
  Backend backend = sim_backend();
  backend.options.device = "sim:rtx2080ti,sim:gtx1060";
  CheckedRuntime runtime(backend);
  const Tensor x = from_vector<float>({1, 2, 3});
  const DeviceGuard first{"gpu:0"};
  const Tensor y = x * 2.0;
  const DeviceGuard second{"gpu:1"};
  const Tensor z = y + x;  // between the GPUs
  EXPECT_EQ(y.device().index, 0);
  EXPECT_EQ(z.device().index, 1);
  EXPECT_THAT(z.to_vector<float>(), ::testing::ElementsAre(3, 6, 9));
  EXPECT_THAT((z.to(gpu::device) + y).to_vector<float>(), ::testing::ElementsAre(5, 10, 15));
}

TEST_F(Guard, IsOfItsThread) {
  const DeviceGuard<cpu> guard;
  Device there{};
  std::thread([&] {
    const auto previous = exchange_current_core(runtime_->core());
    there = here();
    exchange_current_core(previous);
  }).join();
  EXPECT_EQ(there, gpu::device);
  EXPECT_EQ(here(), cpu::device);
}

TEST_F(Guard, ThreadsWithDifferentGuardsDoNotMeet) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto previous = exchange_current_core(runtime_->core());
      const Device mine = t % 2 == 0 ? cpu::device : gpu::device;
      for (int i = 0; i < 50; ++i) {
        const DeviceGuard guard{mine};
        const Tensor x = full({64}, i) + 1.0;
        if (x.device() != mine || x.to_vector<float>()[63] != static_cast<float>(i + 1)) ++wrong[t];
      }
      exchange_current_core(previous);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// Where things run when nobody stands a guard around them.

TEST_F(Guard, BackwardRunsWhereForwardRan) {
  Tensor x, y;
  {
    const DeviceGuard<cpu> guard;
    x = full({4}, 2).set_requires_grad();
    y = sum(x * x);
  }
  y.backward();  // the default is the GPU
  EXPECT_EQ(x.grad().device(), cpu::device);
  const Tensor z = full({4}, 2).set_requires_grad();
  const Tensor w = sum(z * z);
  const DeviceGuard<cpu> guard;
  w.backward();
  EXPECT_EQ(z.grad().device(), gpu::device);
}

TEST_F(Guard, AModuleLivesWhereItIsBuiltAndIsUpdatedThere) {
  TrainingStep model;
  for (int i = 0; i < 2; ++i) {
    const DeviceGuard guard{i == 0 ? "" : "cpu"};
    model.step(i);
  }
  for (const nn::NamedTensor& parameter : model.parameters()) {
    const Device expected = parameter.name.starts_with("embedding") ? cpu::device : gpu::device;
    EXPECT_EQ(parameter.tensor.device(), expected) << parameter.name;
  }
  const auto state = model.optimizer().state();
  ASSERT_EQ(state.size(), model.parameters().size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].tensor.device(), model.parameters()[i].tensor.device()) << state[i].name;
  }
}

TEST_F(Guard, InPlaceWritesStayWhereTheTensorIs) {
  Tensor x = full({4}, 1);
  const DeviceGuard<cpu> guard;
  x.add_(full({4}, 2));
  x.mul_(2.0);
  EXPECT_EQ(x.device(), gpu::device);
  EXPECT_THAT(x.to_vector<float>(), ::testing::Each(6));
}

TEST_F(Guard, AWriteMakesCopiesElsewhereStale) {
  Tensor x = full({4}, 1);
  Tensor on_cpu, again;
  {
    const DeviceGuard<cpu> guard;
    on_cpu = x + 1.0;  // brings x to the host
  }
  x.add_(x);
  {
    const DeviceGuard<cpu> guard;
    again = x + 1.0;
  }
  EXPECT_THAT(on_cpu.to_vector<float>(), ::testing::Each(2));
  EXPECT_THAT(again.to_vector<float>(), ::testing::Each(3));
}

}  // namespace
}  // namespace ferry::test
