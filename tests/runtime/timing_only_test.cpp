// Timing-only mode: shapes, costs and allocations without data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include <ferry/profiler.h>
#include "tests/runtime/training_step.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(TimingOnly, ReadingAValueGivesZeroAndIsCounted) {
  CheckedRuntime runtime(timing_only_backend());
  Profiler profiler;
  const Tensor x = from_vector<float>({1, 2, 3}) * 2.0;
  EXPECT_THAT(x.to_vector<float>(), Each(0));
  EXPECT_EQ(sum(x).item(), 0);
  profiler.stop();
  EXPECT_THAT(profiler.report(), ::testing::ContainsRegex("2 (values|reads|times)|read.* 2"));
}

struct Figures {
  std::vector<Shape> shapes;
  Bytes peak_allocated, peak_reserved, allocated, host;
  std::int64_t allocations = 0;
  Nanoseconds time{};
  bool operator==(const Figures&) const = default;
};

Figures figures_of(const Backend& backend) {
  CheckedRuntime runtime(backend);
  TrainingStep model;
  for (int i = 0; i < 3; ++i) model.step(i);
  runtime->synchronize();
  Figures figures;
  for (const nn::NamedTensor& each : model.optimizer().state()) figures.shapes.push_back(each.tensor.shape());
  const MemoryStats stats = runtime->memory_stats(gpu::device);
  figures.peak_allocated = stats.peak_allocated;
  figures.peak_reserved = stats.peak_reserved;
  figures.allocated = stats.allocated;
  figures.allocations = stats.allocations;
  figures.host = runtime->memory_stats(cpu::device).allocated;
  figures.time = runtime->now();
  return figures;
}

TEST(TimingOnly, MemoryAndTimeAreThoseOfARunWithValues) {
  const Figures with = figures_of(sim_backend()), without = figures_of(timing_only_backend());
  EXPECT_EQ(with.shapes, without.shapes);
  EXPECT_EQ(with.peak_allocated, without.peak_allocated);
  EXPECT_EQ(with.peak_reserved, without.peak_reserved);
  EXPECT_EQ(with.allocated, without.allocated);
  EXPECT_EQ(with.allocations, without.allocations);
  EXPECT_EQ(with.host, without.host);
  EXPECT_GT(without.time, Nanoseconds{});
}

// Reading a value costs the copy and the wait, with values or without.
TEST(TimingOnly, ReadingAValueTakesTheSameTime) {
  const auto time_of = [](const Backend& backend) {
    CheckedRuntime runtime(backend);
    Profiler profiler;
    Tensor x = uniform({256, 256}, -1, 1);
    for (int i = 0; i < 3; ++i) {
      x = matmul(x, x);
      sum(x).item();
      (x * 2.0).to_vector<float>();
      slice(x, {0}, {0}, {1}).to_vector<float>();
      const DeviceGuard<cpu> guard;
      x = x + 1.0;
      x.to_vector<float>();
    }
    const std::string report = profiler.report();
    EXPECT_THAT(report, HasSubstr("fetch"));
    return std::pair(runtime->now(), report.substr(0, report.find("Memory Summary")));
  };
  EXPECT_EQ(time_of(sim_backend()), time_of(timing_only_backend()));
}

TEST(TimingOnly, ALargeTableTouchesNoMemory) {
  Backend backend = timing_only_backend();
  backend.options.device_memory = kGiB * 11;
  CheckedRuntime runtime(backend);
  const std::int64_t before = resident_bytes();
  const Nanoseconds start = runtime->now();
  for (const char* device : {"gpu", "cpu"}) {
    const DeviceGuard guard{device};
    const Tensor table = normal({10'000'000, 150}).set_requires_grad();
    const Tensor ids = zeros({4096}, DType::i64);
    const Tensor rows = embedding(table, ids, GradientKind::row_sparse);
    sum(rows).backward();
    optim::Sgd(std::vector<Tensor>{table}, {.rate = 0.1}).step();
    EXPECT_EQ(table.row_sparse_grad()->values.shape(), (Shape{4096, 150}));
    EXPECT_GE(runtime->live_bytes(), Bytes{6'000'000'000});
  }
  EXPECT_LT(resident_bytes() - before, 64 << 20);
  EXPECT_GT(runtime->now() - start, std::chrono::milliseconds(1));
}

TEST(TimingOnly, OutOfMemoryIsThatOfTheDevice) {
  CheckedRuntime runtime(timing_only_backend());
  EXPECT_THROW(zeros({1 << 28}), OutOfMemory);
}

TEST(TimingOnly, AShapeThatDependsOnValuesIsAnError) {
  CheckedRuntime runtime(timing_only_backend());
  const Tensor x = zeros({4, 4}), bounds = from_vector<std::int64_t>({2, 2});
  EXPECT_THAT(message_of<InvalidArgument>([&] { crop(x, bounds); }), HasSubstr("timing-only"));
}

}  // namespace
}  // namespace ferry::test
