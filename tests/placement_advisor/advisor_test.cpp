#include "placement/advisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/report.h"
#include "tests/support/trace_builder.h"

namespace ferry::placement {
namespace {

using ferry::testing::host;
using ferry::testing::OpSpec;
using ferry::testing::shape_slice_crop;
using ferry::testing::TraceBuilder;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<trace::Hotspot> advised(const trace::Trace& trace) {
  std::vector<trace::Hotspot> hotspots = profiler::find_hotspots(trace);
  advise(trace, hotspots);
  return hotspots;
}

std::vector<std::string> ops_of(const trace::Trace& trace, const trace::Advice& advice) {
  std::vector<std::string> ops;
  for (const trace::StringIndex op : advice.ops) ops.push_back(trace.string(op));
  return ops;
}

trace::Hotspot hotspot_at(const trace::Trace& trace, const std::vector<trace::Hotspot>& hotspots, int line) {
  for (const trace::Hotspot& hotspot : hotspots) {
    if (trace.sites[static_cast<std::size_t>(hotspot.site)].line == line) return hotspot;
  }
  throw std::runtime_error("no hotspot at that line");
}

TEST(Advisor, MovesSliceOfTheShapeSliceCropProgramToTheCpu) {
  const trace::Trace trace = shape_slice_crop();
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_THAT(hotspots, SizeIs(2));
  Nanoseconds blocked{};
  for (const trace::Hotspot& hotspot : hotspots) blocked += hotspot.blocked;
  for (const trace::Hotspot& hotspot : hotspots) {
    ASSERT_THAT(hotspot.advice, SizeIs(1));
    const trace::Advice& advice = hotspot.advice[0];
    EXPECT_THAT(ops_of(trace, advice), ElementsAre("slice"));
    EXPECT_EQ(trace.sites[static_cast<std::size_t>(advice.sites[0])].line, 31);
    EXPECT_EQ(advice.device, cpu::device);
    EXPECT_EQ(advice.copies_removed, 20);
    EXPECT_EQ(advice.copies_added, 0);
    EXPECT_EQ(advice.blocked_saved, blocked);
    EXPECT_THAT(advice.text,
                HasSubstr("put slice (main.cpp:31) into a DeviceGuard<cpu> scope: removes 20 synchronous copies (10 "
                          "CPU->GPU, 10 GPU->CPU), adds none, saves "));
  }
}

TEST(Advisor, InStagedModeOnlyCopiesToTheHostBlock) {
  const trace::Trace trace = shape_slice_crop("staged");
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_THAT(hotspots, SizeIs(1));
  ASSERT_THAT(hotspots[0].advice, SizeIs(1));
  EXPECT_EQ(hotspots[0].advice[0].copies_removed, 20);
  EXPECT_GT(hotspots[0].advice[0].blocked_saved, hotspots[0].blocked);  // enqueuing the other ten takes host time, too
  EXPECT_THAT(hotspots[0].advice[0].text,
              HasSubstr("removes 10 synchronous copies (10 GPU->CPU) and 10 asynchronous copies (10 CPU->GPU)"));
}

TEST(Advisor, TheAdvisedProgramHasTheCopiesThatWereForetold) {
  const trace::Trace before = shape_slice_crop(), after = shape_slice_crop("synchronous", cpu::device);
  const trace::Advice advice = advised(before)[0].advice.at(0);
  EXPECT_EQ(after.copies.size(), before.copies.size() - static_cast<std::size_t>(advice.copies_removed));
  EXPECT_THAT(advised(after), IsEmpty());
}

// What following the advice gives is what it said, in both modes, up to slice's own time on the CPU, which is a guess.
TEST(Advisor, TheSavingForetoldIsTheOneHad) {
  for (const std::string mode : {"synchronous", "staged"}) {
    const trace::Trace before = shape_slice_crop(mode), after = shape_slice_crop(mode, cpu::device);
    const trace::Advice advice = advised(before)[0].advice.at(0);
    const auto said = static_cast<double>((advice.blocked_saved - advice.compute_added).count());
    const auto had = static_cast<double>(((before.end - before.begin) - (after.end - after.begin)).count());
    EXPECT_NEAR(said / had, 1, 0.1) << mode;
  }
}

// The GPU is busy for longer than the host: a copy that vanishes only moves the wait to the read behind it.
TEST(Advisor, PromisesNothingWhereTheGpuIsTheBottleneck) {
  TraceBuilder builder;
  for (int i = 0; i < 5; ++i) {
    const int x = builder.tensor("x", Bytes{400}, gpu::device), scale = builder.tensor("scale", Bytes{4});
    const int y = builder.tensor("y", Bytes{400});
    builder.op({.name = "convolve", .line = 10, .inputs = {x}, .outputs = {x}, .time = 5ms});
    builder.op({.name = "schedule", .line = 11, .device = cpu::device, .outputs = {scale}, .time = 1us});
    builder.op({.name = "multiply", .line = 12, .inputs = {x, scale}, .outputs = {y}, .bytes = 800});
    builder.fetch(y, 13);
  }
  const trace::Trace trace = builder.build();
  for (const trace::Hotspot& hotspot : advised(trace)) {
    EXPECT_GT(hotspot.blocked, 20ms);
    for (const trace::Advice& advice : hotspot.advice) EXPECT_LT(advice.blocked_saved, 1ms) << advice.text;
  }
}

TEST(Advisor, NamesALineOnceWhateverItsScopes) {
  TraceBuilder builder;
  const int image = builder.tensor("image", Bytes{40'000}, gpu::device);
  for (int i = 0; i < 3; ++i) {
    const int shape = builder.tensor("shape", Bytes{16}), bounds = builder.tensor("bounds", Bytes{8});
    const int result = builder.tensor("crop", Bytes{4'000});
    const std::string scope = std::string("step ").append(std::to_string(i));
    builder.op({.name = "shape", .line = 1, .inputs = {image}, .outputs = {host(shape)}, .time = 1us, .scope = scope});
    builder.op({.name = "slice", .line = 2, .inputs = {shape}, .outputs = {bounds}, .bytes = 24, .scope = scope});
    builder.op({.name = "crop", .line = 3, .inputs = {image, host(bounds)}, .outputs = {result}, .scope = scope});
  }
  const trace::Trace trace = builder.build();
  for (const trace::Hotspot& hotspot : advised(trace)) {
    ASSERT_THAT(hotspot.advice, SizeIs(1));
    EXPECT_THAT(ops_of(trace, hotspot.advice[0]), ElementsAre("slice"));
    EXPECT_EQ(hotspot.advice[0].copies_removed, 6);
    EXPECT_THAT(hotspot.advice[0].text, HasSubstr("put slice (main.cpp:2) into"));
  }
}

TEST(Advisor, IsSilentWhereMovingWouldAddMoreCopiesThanItRemoves) {
  TraceBuilder builder;
  const int step = builder.tensor("step", Bytes{4});
  const int weights = builder.tensor("weights", Bytes{4'000'000}, gpu::device);
  for (int i = 0; i < 5; ++i) {
    // The weights change on the GPU each time: scale on the CPU would copy them both ways.
    const int rate = builder.tensor("rate", Bytes{4});
    builder.op({.name = "schedule",
                .line = 10,
                .device = cpu::device,
                .inputs = {step},
                .outputs = {rate, step},
                .has_gpu_kernel = false});
    builder.op({.name = "scale", .line = 11, .inputs = {weights, rate}, .outputs = {weights}});
    builder.op({.name = "step", .line = 12, .inputs = {weights}, .outputs = {weights}});
  }
  const trace::Trace trace = builder.build();
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_THAT(hotspots, SizeIs(1));
  EXPECT_EQ(hotspots[0].calls, 5);
  EXPECT_THAT(hotspots[0].advice, IsEmpty());
}

TEST(Advisor, MovesAnotherOpWhereTheHotspotsOpCannotMove) {
  TraceBuilder builder;
  for (int i = 0; i < 4; ++i) {
    const int boxes = builder.tensor("boxes", Bytes{400}), kept = builder.tensor("kept", Bytes{40});
    builder.op({.name = "range", .line = 20, .outputs = {boxes}, .bytes = 400});
    builder.op({.name = "nms",
                .line = 21,
                .device = cpu::device,
                .inputs = {boxes},
                .outputs = {kept},
                .has_gpu_kernel = false,
                .cause = trace::PlacementCause::fallback});
  }
  const trace::Trace trace = builder.build();
  const trace::Advice advice = advised(trace).at(0).advice.at(0);
  EXPECT_THAT(ops_of(trace, advice), ElementsAre("range"));
  EXPECT_EQ(advice.copies_removed, 4);
  EXPECT_EQ(advice.copies_added, 0);
}

TEST(Advisor, MovesAChainOfTwoOpsTogether) {
  TraceBuilder builder;
  const int image = builder.tensor("image", Bytes{400'000}, gpu::device);
  for (int i = 0; i < 6; ++i) {
    const int shape = builder.tensor("shape", Bytes{16}), half = builder.tensor("half", Bytes{16});
    const int bounds = builder.tensor("bounds", Bytes{8}), out = builder.tensor("out", Bytes{400});
    builder.op({.name = "shape", .line = 1, .inputs = {image}, .outputs = {host(shape)}, .time = 1us});
    builder.op({.name = "divide", .line = 2, .inputs = {shape}, .outputs = {half}, .bytes = 32});
    builder.op({.name = "slice", .line = 3, .inputs = {half}, .outputs = {bounds}, .bytes = 24});
    builder.op({.name = "crop", .line = 4, .inputs = {image, host(bounds)}, .outputs = {out}});
  }
  const trace::Trace trace = builder.build();
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_THAT(hotspots, SizeIs(2));
  for (const trace::Hotspot& hotspot : hotspots) {
    ASSERT_THAT(hotspot.advice, SizeIs(1));
    EXPECT_THAT(ops_of(trace, hotspot.advice[0]), ElementsAre("divide", "slice"));
    EXPECT_EQ(hotspot.advice[0].copies_removed, 12);
    EXPECT_EQ(hotspot.advice[0].copies_added, 0);
    EXPECT_THAT(hotspot.advice[0].text, HasSubstr("put divide (main.cpp:2) and slice (main.cpp:3) into"));
  }
}

// A table of 60 MB on the CPU, looked up with ids that were computed on the GPU.
trace::Trace embedding_trace(Bytes gpu_capacity) {
  TraceBuilder builder;
  const int table = builder.tensor("table", Bytes{60'000'000});
  for (int i = 0; i < 20; ++i) {
    const int text = builder.tensor("text", Bytes{4'096}), ids = builder.tensor("ids", Bytes{4'096});
    const int rows = builder.tensor("rows", Bytes{600'000}), loss = builder.tensor("loss", Bytes{4});
    builder.op({.name = "hash", .line = 40, .inputs = {text}, .outputs = {ids}, .bytes = 8'192});
    builder.op({.name = "embedding",
                .line = 41,
                .device = cpu::device,
                .inputs = {table, ids},
                .outputs = {rows},
                .time = 90us,
                .bytes = 1.2e6,
                .cause = trace::PlacementCause::guard});
    builder.op({.name = "mean", .line = 42, .inputs = {rows}, .outputs = {loss}, .bytes = 600'000});
    builder.op({.name = "sgd",
                .line = 43,
                .device = cpu::device,
                .inputs = {table, rows},
                .outputs = {table},
                .time = 50us,
                .bytes = 1.2e6,
                .has_gpu_kernel = false,
                .phase = trace::Phase::optimizer});
  }
  trace::Trace trace = builder.build();
  trace.devices[1].capacity = gpu_capacity;
  return trace;
}

TEST(Advisor, BringsIdsToTheTableNotTheTableToTheIds) {
  const trace::Trace trace = embedding_trace(kGiB);
  const trace::Hotspot ids = hotspot_at(trace, advised(trace), 41);
  EXPECT_EQ(ids.from, gpu::device);
  ASSERT_FALSE(ids.advice.empty());
  EXPECT_THAT(ops_of(trace, ids.advice[0]), ElementsAre("hash"));
  // hash reads the text on the CPU: both its copies vanish.
  EXPECT_EQ(ids.advice[0].copies_removed, 40);
  EXPECT_EQ(ids.advice[0].copies_added, 0);
  for (const trace::Advice& advice : ids.advice) EXPECT_EQ(advice.device, cpu::device);
}

TEST(Advisor, DoesNotMoveToTheGpuWhatDoesNotFitThere) {
  const auto offers_gpu = [](Bytes capacity) {
    TraceBuilder builder;
    const int table = builder.tensor("table", Bytes{60'000'000});
    for (int i = 0; i < 2'000; ++i) {
      const int ids = builder.tensor("ids", Bytes{4'096}), rows = builder.tensor("rows", Bytes{4'096});
      builder.op({.name = "hash", .line = 40, .outputs = {ids}, .time = 1us, .bytes = 8'192});
      builder.op({.name = "embedding",
                  .line = 41,
                  .device = cpu::device,
                  .inputs = {table, ids},
                  .outputs = {rows},
                  .time = 900us,
                  .bytes = 8'192});
    }
    trace::Trace trace = builder.build();
    trace.devices[1].capacity = capacity;
    const std::vector<trace::Hotspot> hotspots = advised(trace);
    for (const trace::Advice& advice : hotspots.at(0).advice) {
      if (advice.device == gpu::device) return true;
    }
    return false;
  };
  EXPECT_TRUE(offers_gpu(kGiB));
  EXPECT_FALSE(offers_gpu(kMiB * 32));
}

TEST(Advisor, CountsOneCopyForAllReadersOfATensor) {
  TraceBuilder builder;
  for (int i = 0; i < 3; ++i) {
    const int mask = builder.tensor("mask", Bytes{400});
    builder.op({.name = "threshold", .line = 50, .device = cpu::device, .outputs = {mask}, .time = 10us, .bytes = 400});
    for (int reader = 0; reader < 4; ++reader) {
      const int out = builder.tensor("out", Bytes{400});
      builder.op(
          {.name = "multiply", .line = 51 + reader, .inputs = {mask}, .outputs = {out}, .time = 2us, .bytes = 800});
    }
  }
  const trace::Trace trace = builder.build();
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_THAT(hotspots, SizeIs(1));
  EXPECT_EQ(hotspots[0].calls, 3);
  // Moving the first reader would only hand the copy on to the second.
  ASSERT_FALSE(hotspots[0].advice.empty());
  EXPECT_THAT(ops_of(trace, hotspots[0].advice[0]), ElementsAre("threshold"));
  EXPECT_EQ(hotspots[0].advice[0].device, gpu::device);
  EXPECT_EQ(hotspots[0].advice[0].copies_removed, 3);
  EXPECT_EQ(hotspots[0].advice[0].copies_added, 0);
}

TEST(Advisor, AParameterUpdatedEachStepIsCopiedEachStep) {
  const auto advice_for = [](bool updated) {
    TraceBuilder builder;
    const int weight = builder.tensor("weight", Bytes{1'000'000}, gpu::device);
    for (int i = 0; i < 20; ++i) {
      const int x = builder.tensor("x", Bytes{40'000}), y = builder.tensor("y", Bytes{40'000});
      builder.op({.name = "linear",
                  .line = 60,
                  .device = gpu::device,
                  .inputs = {x, weight},
                  .outputs = {y},
                  .flops = 1e3,
                  .bytes = 8e4});
      if (updated) {
        builder.op({.name = "sgd",
                    .line = 61,
                    .inputs = {weight},
                    .outputs = {weight},
                    .cause = trace::PlacementCause::inherited,
                    .phase = trace::Phase::optimizer});
      }
      builder.op({.name = "log",
                  .line = 62,
                  .device = cpu::device,
                  .inputs = {y},
                  .outputs = {x},
                  .bytes = 80,
                  .has_gpu_kernel = false});
    }
    const trace::Trace trace = builder.build();
    return hotspot_at(trace, advised(trace), 60).advice;
  };
  EXPECT_THAT(advice_for(true), IsEmpty());
  // Left as it is, the weight is copied to the CPU once and stays valid there.
  ASSERT_FALSE(advice_for(false).empty());
  EXPECT_EQ(advice_for(false)[0].copies_removed, 40);
  EXPECT_EQ(advice_for(false)[0].copies_added, 1);
}

TEST(Advisor, BackwardOpsMoveWithTheirForwardOp) {
  TraceBuilder builder;
  for (int i = 0; i < 5; ++i) {
    const int x = builder.tensor("x", Bytes{400}), y = builder.tensor("y", Bytes{400});
    const int gradient = builder.tensor("gradient", Bytes{400});
    builder.op({.name = "tanh", .line = 70, .inputs = {x}, .outputs = {y}, .bytes = 800});
    builder.op({.name = "loss",
                .line = 71,
                .device = cpu::device,
                .inputs = {y},
                .outputs = {gradient},
                .bytes = 800,
                .has_gpu_kernel = false});
    builder.op({.name = "tanh_backward",
                .line = 70,
                .inputs = {gradient, y},
                .outputs = {x},
                .bytes = 1'200,
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::backward});
  }
  const trace::Trace trace = builder.build();
  const std::vector<trace::Hotspot> hotspots = advised(trace);
  ASSERT_FALSE(hotspots.empty());
  for (const trace::Hotspot& hotspot : hotspots) {
    ASSERT_FALSE(hotspot.advice.empty()) << trace.string(hotspot.op_name);
    EXPECT_THAT(ops_of(trace, hotspot.advice[0]), ElementsAre("tanh"));
    // x → tanh, y → loss and gradient → tanh_backward.
    EXPECT_EQ(hotspot.advice[0].copies_removed, 15);
    EXPECT_EQ(hotspot.advice[0].copies_added, 0);
  }
}

TEST(Advisor, WeighsSlowerComputationAgainstTheCopies) {
  const auto advice_for = [](double flops) {
    TraceBuilder builder;
    for (int i = 0; i < 5; ++i) {
      const int x = builder.tensor("x", Bytes{400}), y = builder.tensor("y", Bytes{400});
      builder.op({.name = "matmul", .line = 80, .inputs = {x}, .outputs = {y}, .flops = flops, .bytes = 800});
      builder.op({.name = "sort",
                  .line = 81,
                  .device = cpu::device,
                  .inputs = {y},
                  .outputs = {x},
                  .bytes = 800,
                  .has_gpu_kernel = false});
    }
    const trace::Trace trace = builder.build();
    return hotspot_at(trace, advised(trace), 81).advice;
  };
  ASSERT_THAT(advice_for(1e3), SizeIs(1));
  EXPECT_THAT(advice_for(1e9), IsEmpty());  // 50 ms on a CPU of 20 GFLOP/s
}

TEST(Advisor, LeavesExplicitReadsAlone) {
  TraceBuilder builder;
  for (int i = 0; i < 5; ++i) {
    const int y = builder.tensor("y", Bytes{400});
    builder.op({.name = "random", .line = 90, .outputs = {y}, .bytes = 400});
    builder.fetch(y, 91);
  }
  EXPECT_THAT(advised(builder.build()), IsEmpty());
}

}  // namespace
}  // namespace ferry::placement
