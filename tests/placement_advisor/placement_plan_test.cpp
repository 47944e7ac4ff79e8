// Advice for whole programs: the minimum cut against all assignments, the advice against the shortest replay of all.
#include "placement/placement_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "tests/support/trace_builder.h"

namespace ferry::placement {
namespace {

using ferry::testing::host;
using ferry::testing::OpSpec;
using ferry::testing::shape_slice_crop;
using ferry::testing::TraceBuilder;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Random = std::mt19937_64;

// A loop over some lines: values go from op to op, some in host memory, some changed in place, some read by the
// program; some ops have no kernel for the GPU, some stand in a guard.
trace::Trace random_trace(std::uint64_t seed, int lines) {
  Random random(seed);
  TraceBuilder builder(random() % 2 == 0 ? "synchronous" : "staged");
  struct Line {
    OpSpec spec;
    std::vector<int> reads;  // how far back; more than there are: a kept tensor
    bool host_result, in_place;
    Bytes size;
  };
  std::vector<Line> program;
  for (int i = 0; i < lines; ++i) {
    Line line{.spec = {.name = fmt::format("op{}", i), .line = 10 + i},
              .reads = {},
              .host_result = random() % 8 == 0,
              .in_place = random() % 6 == 0,
              .size = Bytes{4 << (random() % 18)}};
    line.spec.time = Nanoseconds(1'000 << (random() % 8));
    line.spec.bytes = static_cast<double>(line.size.count) * 2;
    line.spec.flops = static_cast<double>(std::uint64_t{1} << (random() % 20));
    if (random() % 3 == 0) line.spec.device = cpu::device;
    if (random() % 8 == 0) {
      line.spec.device = cpu::device;
      line.spec.has_gpu_kernel = false;
      line.spec.cause = trace::PlacementCause::fallback;
    } else if (random() % 8 == 0) {
      line.spec.cause = trace::PlacementCause::guard;
    }
    for (std::size_t k = 0; k <= random() % 3; ++k) line.reads.push_back(1 + static_cast<int>(random() % 5));
    program.push_back(line);
  }
  std::vector<int> kept;
  for (int i = 0; i < 3; ++i)
    kept.push_back(builder.tensor(fmt::format("kept{}", i), Bytes{4 << (random() % 18)},
                                  random() % 2 == 0 ? cpu::device : gpu::device));
  const std::uint64_t fetched = random() % 4;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> made;
    for (Line& line : program) {
      OpSpec spec = line.spec;
      for (const int back : line.reads) {
        const bool there = back <= static_cast<int>(made.size());
        spec.inputs.emplace_back(there ? made[made.size() - static_cast<std::size_t>(back)]
                                       : kept[static_cast<std::size_t>(back) % kept.size()]);
      }
      if (line.in_place) spec.inputs.emplace_back(kept[0]);
      const int result = builder.tensor(fmt::format("{}_{}", spec.name, round), line.size);
      spec.outputs.emplace_back(result, line.host_result);
      if (line.in_place) spec.outputs.emplace_back(kept[0]);
      builder.op(spec);
      made.push_back(result);
    }
    if (fetched != 0) builder.fetch(made.back(), 99);
  }
  return builder.build();
}

// What an assignment costs in sum, by walking the ops with the set of places where each tensor is.
Nanoseconds walked_cost(const Replay& replay, const PlacementUnits& units, const std::vector<DeviceType>& places) {
  const trace::Trace& trace = replay.trace();
  Nanoseconds cost{};
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const auto op = static_cast<trace::OpIndex>(i);
    const std::int32_t unit = units.unit_of[static_cast<std::size_t>(replay.group_of(op))];
    if (unit >= 0)
      cost +=
          replay.op_cost().on(op, places[static_cast<std::size_t>(unit)] == DeviceType::cpu ? cpu::device : units.gpu);
  }
  for (std::size_t t = 0; t < trace.tensors.size(); ++t) {
    const auto tensor = static_cast<trace::TensorIndex>(t);
    if (replay.uses(tensor).empty()) continue;
    std::set<Device> valid{replay.first_home(tensor)};
    for (const TensorUse& use : replay.uses(tensor)) {
      Device place = use.explicit_to;
      if (use.op >= 0) {
        const std::int32_t unit = units.unit_of[static_cast<std::size_t>(replay.group_of(use.op))];
        place = use.host   ? cpu::device
                : unit < 0 ? trace.ops[static_cast<std::size_t>(use.op)].device
                : places[static_cast<std::size_t>(unit)] == DeviceType::cpu ? cpu::device
                                                                            : units.gpu;
      }
      if (use.read && !valid.contains(place)) {
        const Bytes size = trace.tensors[t].size;
        const Device from = *valid.begin();
        cost += replay.copy_cost().issue(from, place, size) + replay.copy_cost().transfer(from, place, size);
        valid.insert(place);
      }
      if (use.write) valid = {place};
    }
  }
  return cost;
}

// All assignments of the units.
template <class Visit>
void for_each_assignment(const CutProblem& problem, const Visit& visit) {
  const std::size_t units = problem.nodes.size();
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << units; ++bits) {
    std::vector<DeviceType> places;
    bool allowed = true;
    for (std::size_t i = 0; i < units; ++i) {
      places.push_back((bits >> i & 1) != 0 ? DeviceType::gpu : DeviceType::cpu);
      allowed = allowed && (places[i] == DeviceType::cpu || problem.nodes[i].may_be_gpu);
    }
    if (allowed) visit(places);
  }
}

TEST(MinimumCut, IsTheLeastSumOfAllAssignmentsOfRandomPrograms) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const trace::Trace trace = random_trace(seed, 4 + static_cast<int>(seed % 8));
    const Replay replay(trace);
    const PlacementUnits units = placement_units(replay);
    const CutProblem problem = cut_problem(replay, units);
    std::optional<Nanoseconds> least;
    for_each_assignment(problem, [&](const std::vector<DeviceType>& places) {
      const Nanoseconds cost = walked_cost(replay, units, places);
      ASSERT_EQ(cost_of(problem, places), cost);
      if (!least || cost < *least) least = cost;
    });
    ASSERT_EQ(minimum_cut(problem).cost, *least);
    several += problem.nodes.size() >= 4;
  }
  EXPECT_GT(several, 200);
}

TEST(MinimumCut, OfOneNodeIsItsCheaperPlace) {
  CutProblem problem{.nodes = {{.cpu = 3us, .gpu = 5us}}, .values = {}};
  EXPECT_EQ(minimum_cut(problem).places, std::vector{DeviceType::cpu});
  problem.nodes[0].may_be_cpu = false;
  EXPECT_EQ(minimum_cut(problem).places, std::vector{DeviceType::gpu});
  EXPECT_EQ(minimum_cut(problem).cost, 5us);
  EXPECT_EQ(minimum_cut({}).cost, 0us);
}

TEST(MinimumCut, WorksOnALongChain) {
  CutProblem problem;
  for (std::int32_t i = 0; i < 20'000; ++i) {
    problem.nodes.push_back({.cpu = Nanoseconds(10 + i % 7), .gpu = Nanoseconds(13 - i % 7)});
    problem.values.push_back({i - 1, {i}, 2ns, 2ns});
  }
  problem.values[0].maker = CutProblem::kCpu;
  const Cut cut = minimum_cut(problem);
  EXPECT_EQ(cut.cost, cost_of(problem, cut.places));
  EXPECT_LT(cut.cost, cost_of(problem, std::vector(problem.nodes.size(), DeviceType::cpu)));
}

TEST(PlacementPlan, IsWithinAPercentOfTheShortestReplayOfRandomPrograms) {
  constexpr int kPrograms = 240;
  int close = 0, shorter = 0;
  for (std::uint64_t seed = 1000; seed < 1000 + kPrograms; ++seed) {
    SCOPED_TRACE(seed);
    const trace::Trace trace = random_trace(seed, 4 + static_cast<int>(seed % 7));
    const Replay replay(trace);
    const PlacementUnits units = placement_units(replay);
    Nanoseconds shortest = replay.duration(replay.recorded_places());
    for_each_assignment(cut_problem(replay, units), [&](const std::vector<DeviceType>& places) {
      shortest = std::min(shortest, replay.duration(places_of(replay, units, places)));
    });
    const PlacementPlan plan = plan_placement(replay, {.least_gain = 0});
    EXPECT_EQ(plan.predicted, replay.duration(plan.places));
    EXPECT_LE(plan.predicted, plan.recorded);
    close += static_cast<double>(plan.predicted.count()) <= 1.01 * static_cast<double>(shortest.count());
    shorter += plan.predicted < plan.recorded;
  }
  EXPECT_GE(close, kPrograms * 95 / 100) << close << " of " << kPrograms;
  EXPECT_GT(shorter, kPrograms / 4);
  RecordProperty("close", close);
}

// The one line of the example sync_copies.
TEST(PlacementPlan, MovesSliceToTheCpu) {
  const trace::Trace before = shape_slice_crop(), after = shape_slice_crop("synchronous", cpu::device);
  const Replay replay(before);
  const PlacementPlan plan = plan_placement(replay);
  ASSERT_FALSE(plan.scopes.empty());
  const PlacedScope& first = plan.scopes[0];
  EXPECT_EQ(before.string(first.op), "slice");
  EXPECT_EQ(first.device, cpu::device);
  EXPECT_EQ(first.calls, 10);
  const auto predicted = static_cast<double>(first.predicted.count());
  EXPECT_NEAR(predicted / static_cast<double>((after.end - after.begin).count()), 1, 0.05);
  EXPECT_EQ(plan.scopes.back().predicted, plan.predicted);
  EXPECT_THAT(plan_text(replay, plan), HasSubstr("DeviceGuard<cpu>   around main.cpp:31 (slice), 10 calls: "));
  const auto file = nlohmann::json::parse(plan_file(replay, plan));
  EXPECT_EQ(file["rules"][0], nlohmann::json::parse(R"({"site": "main.cpp:31", "op": "slice", "device": "cpu"})"));
  const Replay again(after);
  for (const PlacedScope& scope : plan_placement(again).scopes) EXPECT_NE(after.string(scope.op), "slice");
}

// Only the layer whose input is on the CPU moves; the rule of the other one stands before it.
TEST(PlacementPlan, TellsModulesOfOneLineApart) {
  TraceBuilder builder;
  const int there = builder.tensor("weight", Bytes{4'000'000}, gpu::device);
  for (int i = 0; i < 5; ++i) {
    const int ids = builder.tensor("ids", Bytes{40}), rows = builder.tensor("rows", Bytes{40});
    const int big = builder.tensor("big", Bytes{4'000'000}), out = builder.tensor("out", Bytes{40});
    builder.op(
        {.name = "hash", .line = 5, .device = cpu::device, .outputs = {ids}, .time = 1us, .has_gpu_kernel = false});
    builder.op({.name = "linear", .line = 7, .inputs = {ids}, .outputs = {rows}, .bytes = 80, .scope = "layer"});
    builder.op({.name = "sort",
                .line = 8,
                .device = cpu::device,
                .inputs = {rows},
                .outputs = {out},
                .time = 1us,
                .has_gpu_kernel = false});
    builder.op(
        {.name = "linear", .line = 7, .inputs = {there}, .outputs = {big}, .bytes = 8e6, .scope = "block.layer"});
  }
  const trace::Trace trace = builder.build();
  const Replay replay(trace);
  const PlacementPlan plan = plan_placement(replay);
  ASSERT_THAT(plan.scopes, SizeIs(1));
  EXPECT_THAT(plan_text(replay, plan), HasSubstr(", in layer\n"));
  const auto rules = nlohmann::json::parse(plan_file(replay, plan))["rules"];
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0]["scope"], "block.layer");
  EXPECT_EQ(rules[0]["device"], "gpu:0");
  EXPECT_EQ(rules[1]["scope"], "layer");
  EXPECT_EQ(rules[1]["device"], "cpu");
}

TEST(PlacementPlan, WhatGainsLessThanReplaysErrIsNoAdvice) {
  const trace::Trace trace = shape_slice_crop();
  const Replay replay(trace);
  const PlacementPlan plan = plan_placement(replay, {.least_gain = 1});
  EXPECT_THAT(plan.scopes, IsEmpty());
  EXPECT_EQ(plan.predicted, plan.recorded);
  EXPECT_THAT(plan_text(replay, plan), HasSubstr("everything stays"));
}

// A table is made on the GPU by default, looked up and updated there.
trace::Trace table_trace() {
  TraceBuilder builder;
  const int table = builder.tensor("table", Bytes{6'000'000'000});
  builder.op({.name = "uniform", .line = 20, .outputs = {table}, .time = 15ms, .bytes = 6e9});
  for (int i = 0; i < 5; ++i) {
    const int ids = builder.tensor("ids", Bytes{32'768}), rows = builder.tensor("rows", Bytes{2'457'600});
    const int loss = builder.tensor("loss", Bytes{4}), gradient = builder.tensor("gradient", Bytes{2'457'600});
    builder.op({.name = "embedding", .line = 22, .inputs = {table, ids}, .outputs = {rows}, .bytes = 5e6});
    builder.op({.name = "square_error", .line = 23, .inputs = {rows}, .outputs = {loss}, .bytes = 5e6});
    builder.op({.name = "square_error_backward",
                .line = 23,
                .inputs = {rows},
                .outputs = {gradient},
                .bytes = 5e6,
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::backward});
    builder.op({.name = "sgd",
                .line = 25,
                .inputs = {table, gradient},
                .outputs = {table},
                .bytes = 7e6,
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::optimizer});
  }
  trace::Trace trace = builder.build();
  trace.devices[1].peak_allocated = Bytes{6'010'000'000};
  return trace;
}

TEST(PlacementPlan, ACapacityMovesTheTableAndWhatReadsIt) {
  const trace::Trace trace = table_trace();
  const Replay replay(trace);
  EXPECT_THAT(plan_placement(replay).scopes, IsEmpty());
  const PlacementPlan plan = plan_placement(replay, {.capacity = kGiB * 4});
  EXPECT_TRUE(plan.must_move);
  EXPECT_EQ(plan.reason, "");
  EXPECT_LE(plan.peak, kGiB * 4);
  std::vector<std::string> moved;
  for (const PlacedScope& scope : plan.scopes) moved.push_back(trace.string(scope.op));
  EXPECT_THAT(moved, ::testing::IsSupersetOf({"uniform", "embedding"}));
  EXPECT_THAT(plan_text(replay, plan), HasSubstr("does not fit"));
}

TEST(PlacementPlan, SaysWhyNothingFits) {
  TraceBuilder builder;
  const int table = builder.tensor("table", Bytes{6'000'000'000}, gpu::device);
  builder.op({.name = "lookup",
              .line = 3,
              .inputs = {table},
              .outputs = {builder.tensor("rows", Bytes{400})},
              .cause = trace::PlacementCause::guard});
  trace::Trace trace = builder.build();
  trace.devices[1].peak_allocated = Bytes{6'000'000'000};
  const Replay replay(trace);
  const PlacementPlan plan = plan_placement(replay, {.capacity = kGiB});
  EXPECT_THAT(plan.reason, HasSubstr("no placement needs less than"));
  EXPECT_THAT(plan.scopes, IsEmpty());
}

TEST(PlacementPlan, GuardsStay) {
  TraceBuilder builder;
  const int image = builder.tensor("image", Bytes{40'000}, gpu::device);
  for (int i = 0; i < 4; ++i) {
    const int half = builder.tensor("half", Bytes{40'000});
    builder.op({.name = "scale",
                .line = 4,
                .device = cpu::device,
                .inputs = {image},
                .outputs = {half},
                .time = 50us,
                .cause = trace::PlacementCause::guard});
    builder.op({.name = "sum", .line = 5, .inputs = {half}, .outputs = {image}});
  }
  const trace::Trace trace = builder.build();
  const Replay replay(trace);
  for (const PlacedScope& scope : plan_placement(replay).scopes) EXPECT_NE(trace.string(scope.op), "scale");
}

}  // namespace
}  // namespace ferry::placement
