#include "swap/trace_iteration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include <ferry/error.h>
#include "src/trace/trace_json.h"
#include "swap/log_file.h"
#include "swap/replay.h"
#include "tests/support/trace_builder.h"

namespace ferry::swap {
namespace {

using namespace std::chrono_literals;

// Three layers forward and backward on the GPU, an update in place of the weight, and an op on the CPU beside them.
trace::Trace recorded() {
  testing::TraceBuilder builder;
  const int x = builder.tensor("x", Bytes{1000}, gpu::device), w = builder.tensor("w", Bytes{100}, gpu::device);
  const int label = builder.tensor("label", Bytes{8});
  std::vector<int> y = {x};
  for (int i = 0; i < 3; ++i) {
    y.push_back(builder.tensor(fmt::format("y{}", i), Bytes{4000}));
    builder.op({.name = "layer", .inputs = {y[y.size() - 2], w}, .outputs = {y.back()}, .time = 20us});
  }
  builder.op({.name = "look_up", .device = cpu::device, .inputs = {testing::host(label)}, .outputs = {label}});
  int gradient = y.back();
  for (int i = 2; i >= 0; --i) {
    const int next = builder.tensor(fmt::format("d{}", i), Bytes{4000});
    builder.op({.name = "layer_backward",
                .inputs = {gradient, y[static_cast<std::size_t>(i)], w},
                .outputs = {next},
                .time = 40us,
                .phase = trace::Phase::backward});
    gradient = next;
  }
  builder.op({.name = "sgd_", .inputs = {w, gradient}, .outputs = {w}, .time = 5us});
  return builder.build();
}

TEST(TraceIteration, TakesTheOpsOfTheGpuWithTheirKernelsTime) {
  const Iteration iteration = iteration_of(recorded(), "run.json");
  ASSERT_EQ(iteration.ops.size(), 7u);
  EXPECT_EQ(iteration.ops[0].name, "layer");
  EXPECT_EQ(iteration.ops[0].time, 20us);
  EXPECT_EQ(unconstrained(iteration).time, 3 * 20us + 3 * 40us + 5us);
  // x and w are pinned; the update works on w itself and makes nothing.
  EXPECT_TRUE(iteration.storages[0].pinned && iteration.storages[1].pinned);
  EXPECT_TRUE(iteration.ops.back().outputs.empty());
  // y0, y1 and the running gradient with its successor.
  EXPECT_EQ(unconstrained(iteration).peak, Bytes{1100 + 3 * 4000 + 4000});
}

TEST(TraceIteration, CanBeReplayedFromAFile) {
  const std::string path = ::testing::TempDir() + "ferry_recorded.json";
  std::ofstream file(path);
  trace::write_json(recorded(), file);
  file.close();
  const Iteration iteration = read_iteration(path);
  const Cost cost = replay(iteration, {.budget = Bytes{1100 + 3 * 4000}});
  EXPECT_TRUE(cost.feasible) << cost.reason;
  EXPECT_GT(cost.recompute, 0ns);
  EXPECT_THROW(iteration_of(trace::Trace{}, "empty.json"), ParseError);
}

}  // namespace
}  // namespace ferry::swap
