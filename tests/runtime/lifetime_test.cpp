// Runtimes, threads and tensors that outlive one another; what OutOfMemory says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include "src/memory/staging_ring.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Lifetime, TensorsOutliveTheirRuntime) {
  Tensor x, y;
  {
    Runtime runtime(sim_backend().options);
    x = full({1000}, 3).set_requires_grad();
    y = sum(x * x);
  }
  y.backward();
  EXPECT_THAT(x.grad().to_vector<float>(), Each(6));
  EXPECT_EQ((x + x).device(), gpu::device);
}

TEST(Lifetime, RuntimesNestAndRestore) {
  Runtime outer(cpu_backend().options);
  EXPECT_EQ(zeros({1}).device(), cpu::device);
  {
    Runtime inner(sim_backend().options);
    EXPECT_EQ(zeros({1}).device(), gpu::device);
  }
  EXPECT_EQ(zeros({1}).device(), cpu::device);
}

TEST(Lifetime, RuntimesMayEndInAnyOrder) {
  Runtime base(cpu_backend().options);
  auto first = std::make_unique<Runtime>(sim_backend().options);
  Backend two = sim_backend();
  two.options.device = "sim:gtx1060,sim:gtx1060";
  auto second = std::make_unique<Runtime>(two.options);
  first.reset();
  EXPECT_NO_THROW(DeviceGuard<> guard{"gpu:1"});  // the second is still current
  second.reset();
  EXPECT_THROW(DeviceGuard<> guard{"gpu"}, InvalidArgument);  // the base is, which has no GPU
}

TEST(Lifetime, UnknownDevicesAreErrorsThatNameThem) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sim:nothing", "'nothing'"},
      {"tpu", "tpu"},
      {"sim:", "presets"},
      {"cuda:99", "CUDA"},
      {"cpu,cpu", "cpu"},
      {"gpu:x", "gpu:x"},
      {"sim:missing.json", "missing.json"},
  };
  for (const auto& [device, word] : cases) {
    EXPECT_THAT(message_of<Error>([device = device] { Runtime runtime({.device = device}); }), HasSubstr(word))
        << device;
  }
  EXPECT_EQ(zeros({1}).numel(), 1);
}

TEST(Lifetime, MemoryStatsFollowTensors) {
  CheckedRuntime runtime(sim_backend());
  const Bytes before = runtime->memory_stats(gpu::device).allocated;
  Tensor x = zeros({1 << 20});
  EXPECT_GE(runtime->memory_stats(gpu::device).allocated - before, kMiB * 4);
  EXPECT_GE(runtime->memory_stats(gpu::device).peak_allocated, kMiB * 4);
  x = Tensor();
  runtime->synchronize();
  EXPECT_EQ(runtime->memory_stats(gpu::device).allocated, before);
  EXPECT_GT(runtime->memory_stats(gpu::device).reserved, before);
  runtime->empty_cache(gpu::device);
  EXPECT_EQ(runtime->memory_stats(gpu::device).reserved, Bytes{});
  runtime->reset_peak_memory(gpu::device);
  EXPECT_EQ(runtime->memory_stats(gpu::device).peak_allocated, Bytes{});
  EXPECT_THROW(runtime->memory_stats(Device{DeviceType::gpu, 3}), InvalidArgument);
}

TEST(Threads, ReadOneTensorTogether) {
  for (const Backend& backend : {sim_backend(), adversarial_backend(3), synchronous_backend()}) {
    CheckedRuntime runtime(backend);
    for (int round = 0; round < 20; ++round) {
      const Tensor x = full({4096}, round) + 1.0;
      std::vector<float> wrong(4, -1);
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          const auto previous = exchange_current_core(runtime->core());
          {
            const DeviceGuard guard{t % 2 == 0 ? "cpu" : "gpu"};
            const Tensor y = t == 0 ? x : x * 2.0;
            wrong[t] = y.to_vector<float>()[17];
          }
          exchange_current_core(previous);
        });
      }
      for (std::thread& thread : threads) thread.join();
      const auto value = static_cast<float>(round + 1);
      ASSERT_THAT(wrong, ElementsAre(value, 2 * value, 2 * value, 2 * value)) << backend.name;
    }
  }
}

TEST(Threads, TrainTheirOwnModels) {
  CheckedRuntime runtime(sim_backend());
  std::vector<float> results(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto previous = exchange_current_core(runtime->core());
      {
        const DeviceGuard guard{t == 0 ? "cpu" : "gpu"};
        Tensor x = full({32, 32}, 0.01).set_requires_grad();
        for (int i = 0; i < 10; ++i) {
          x.zero_grad();
          sum(matmul(x, x)).backward();
        }
        results[t] = x.grad().to_vector<float>()[5];
      }
      exchange_current_core(previous);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

// --- OutOfMemory -----------------------------------------------------------------------------------------------------

TEST(NoMemory, TheErrorHasFiguresOpLineAndAdvice) {
  CheckedRuntime runtime(sim_backend());
  const Tensor held = zeros({256, 1 << 18});  // 256 MiB of 512
  try {
    zeros({384, 1 << 18});
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.figures().requested, kMiB * 384);
    EXPECT_EQ(error.figures().allocated, kMiB * 256);
    EXPECT_GE(error.figures().reserved, kMiB * 256);
    EXPECT_EQ(error.figures().limit, kMiB * 512);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("384.00 MiB"), HasSubstr("256.00 MiB"), HasSubstr("512.00 MiB"),
                                    HasSubstr("DeviceGuard<cpu>"), HasSubstr("fill"), HasSubstr("lifetime_test.cpp:"),
                                    Not(HasSubstr("never fit"))));
  }
  EXPECT_THAT(message_of<OutOfMemory>([] { zeros({1024, 1 << 18}); }), HasSubstr("never fit"));
  const DeviceGuard<cpu> guard;
  EXPECT_EQ(zeros({1024, 1 << 18}).device(), cpu::device);
}

TEST(NoMemory, AnImplicitCopyFailsLikeAnAllocation) {
  Backend backend = sim_backend();
  backend.options.device_memory = kMiB * 16;
  CheckedRuntime runtime(backend);
  Tensor x;
  {
    const DeviceGuard<cpu> guard;
    x = zeros({32, 1 << 18});
  }
  EXPECT_THAT(message_of<OutOfMemory>([&] { sum(x); }),
              AllOf(HasSubstr("sum"), HasSubstr("32.00 MiB"), HasSubstr("16.00 MiB"), HasSubstr("DeviceGuard<cpu>"),
                    HasSubstr("lifetime_test.cpp:")));
  EXPECT_EQ((zeros({10}) + 1.0).to_vector<float>()[3], 1);
}

// Backward ops run where their forward op ran, whatever the guard around backward says.
TEST(NoMemory, TheAdviceIsForTheDeviceThatHasNoMemory) {
  Backend backend = sim_backend();
  backend.options.device_memory = kMiB * 16;
  CheckedRuntime runtime(backend);
  const Tensor x = zeros({7, 1 << 18}).set_requires_grad();
  const Tensor loss = sum(square(x));
  const DeviceGuard<cpu> guard;
  EXPECT_THAT(message_of<OutOfMemory>([&] { loss.backward(); }), HasSubstr("DeviceGuard<cpu>"));
}

// Only the first of several errors is thrown; the results of all that failed are NaN, however often they are read.
TEST(QueuedErrors, LeaveNoValuesBehind) {
  CheckedRuntime runtime(sim_backend());
  const Tensor table = ones({4, 2});
  const Tensor bad = embedding(table, from_vector<std::int64_t>({1, 9, 3}));
  const Tensor worse = embedding(table, from_vector<std::int64_t>({7}));
  EXPECT_THAT(message_of<InvalidArgument>([&] { runtime->synchronize(); }), HasSubstr("ids[1] = 9"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(bad.to_vector<float>(), Each(::testing::IsNan()));
    EXPECT_THAT(worse.to_vector<float>(), Each(::testing::IsNan()));
  }
  EXPECT_THAT(table.to_vector<float>(), Each(1));
}

TEST(Staging, CopiesOfAnySizeNeedNoMorePinnedMemoryThanTheRing) {
  const StagingRingOptions ring;
  for (const Backend& backend : {sim_backend(), adversarial_backend(3), timing_only_backend()}) {
    CheckedRuntime runtime(backend);
    const Tensor host = [] {
      const DeviceGuard<cpu> guard;
      return arange(0, 3e7, 1, DType::f32);  // 120 MB, no multiple of a slab
    }();
    const Tensor same = host + 0.0;
    EXPECT_EQ(same.device(), gpu::device);
    EXPECT_LE(runtime->memory_stats(gpu::device).pinned_reserved, ring.slab * ring.slabs) << backend.name;
    if (backend.options.values) {
      const DeviceGuard<cpu> guard;
      EXPECT_EQ(max(abs(same - host)).item(), 0) << backend.name;
    }
  }
}

TEST(NoMemory, CachedSegmentsAreGivenBackFirst) {
  CheckedRuntime runtime(sim_backend());
  for (int i = 1; i < 12; ++i) EXPECT_EQ(zeros({i * 40, 1 << 18}).numel(), std::int64_t{i} * 40 << 18);
}

TEST(Lifetime, AWriteComesAfterTheCopyThatReads) {
  CheckedRuntime runtime{adversarial_backend(5)};
  Tensor x = full({1 << 16}, 3);
  const Tensor host = x.to(cpu::device);
  x.add_(full({1}, 4));
  EXPECT_EQ(host.to_vector<float>()[7], 3);
  EXPECT_EQ(x.to_vector<float>()[7], 7);
}

}  // namespace
}  // namespace ferry::test
