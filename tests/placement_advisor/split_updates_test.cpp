#include "placement/split_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement/placement_plan.h"
#include "tests/support/trace_builder.h"

namespace ferry::placement {
namespace {

using ferry::testing::TraceBuilder;
using namespace std::chrono_literals;
using ::testing::IsEmpty;

// A table of 6 GB and a small weight, made at two lines and updated in one call.
trace::Trace two_parameters() {
  TraceBuilder builder;
  const int table = builder.tensor("table", Bytes{6'000'000'000}), weight = builder.tensor("weight", Bytes{400'000});
  builder.op({.name = "uniform", .line = 20, .outputs = {table}, .time = 15ms, .bytes = 6e9});
  builder.op({.name = "uniform", .line = 21, .outputs = {weight}, .bytes = 4e5});
  for (int i = 0; i < 5; ++i) {
    const int ids = builder.tensor("ids", Bytes{32'768}), rows = builder.tensor("rows", Bytes{2'457'600});
    const int out = builder.tensor("out", Bytes{400'000});
    const int table_grad = builder.tensor("table grad", Bytes{2'457'600});
    const int weight_grad = builder.tensor("weight grad", Bytes{400'000});
    builder.op({.name = "embedding", .line = 22, .inputs = {table, ids}, .outputs = {rows}, .bytes = 5e6});
    builder.op({.name = "linear", .line = 23, .inputs = {rows, weight}, .outputs = {out}, .bytes = 5e6});
    builder.op({.name = "linear_backward",
                .line = 23,
                .inputs = {rows, weight},
                .outputs = {weight_grad, table_grad},
                .bytes = 5e6,
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::backward});
    builder.op({.name = "sgd_",
                .line = 25,
                .inputs = {table, table_grad, weight, weight_grad},
                .outputs = {table, weight},
                .flops = 3e6,
                .bytes = 7e6,
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::optimizer});
    builder.fetch(out, 26);
  }
  trace::Trace trace = builder.build();
  trace.devices[1].peak_allocated = Bytes{6'010'000'000};
  return trace;
}

TEST(SplitUpdates, TheTensorsOfEachLineAreACallOfTheirOwn) {
  const trace::Trace whole = two_parameters(), split = split_updates(whole);
  ASSERT_EQ(split.ops.size(), whole.ops.size() + 5);
  double flops = 0, bytes = 0;
  Nanoseconds host{}, work{};
  int parts = 0;
  for (const trace::OpRecord& op : split.ops) {
    if (op.phase != trace::Phase::optimizer) continue;
    ++parts;
    ASSERT_EQ(op.inputs.size(), 2u);
    ASSERT_EQ(op.outputs.size(), 1u);
    EXPECT_EQ(op.inputs[0].tensor, op.outputs[0].tensor);
    flops += op.flops;
    bytes += op.bytes;
    host += op.end - op.begin;
    for (const trace::WorkRecord& each : split.work) {
      if (each.correlation == op.correlation) work += each.end - each.begin;
    }
  }
  EXPECT_EQ(parts, 10);
  EXPECT_NEAR(flops, 5 * 3e6, 1);
  EXPECT_NEAR(bytes, 5 * 7e6, 1);
  EXPECT_EQ(host, 5 * TraceBuilder::kLaunch);
  EXPECT_EQ(work, 5 * 20us);
  EXPECT_EQ(Replay(split).duration(Replay(split).recorded_places()), whole.end - whole.begin);
}

TEST(SplitUpdates, CopiesStayWithTheirOps) {
  TraceBuilder builder;
  const int a = builder.tensor("a", Bytes{400}), b = builder.tensor("b", Bytes{400});
  builder.op({.name = "uniform", .line = 1, .outputs = {a}});
  builder.op({.name = "uniform", .line = 2, .outputs = {b}});
  builder.op({.name = "sgd_", .line = 3, .inputs = {a, b}, .outputs = {a, b}, .phase = trace::Phase::optimizer});
  builder.op({.name = "sort", .line = 4, .device = cpu::device, .inputs = {a}});
  const trace::Trace split = split_updates(builder.build());
  ASSERT_EQ(split.ops.size(), 5u);
  ASSERT_EQ(split.copies.size(), 1u);
  EXPECT_EQ(split.string(split.ops[static_cast<std::size_t>(split.copies[0].op)].name), "sort");
}

TEST(SplitUpdates, WhatOneLineMadeStaysOneCall) {
  TraceBuilder builder;
  const int a = builder.tensor("a", Bytes{400}), b = builder.tensor("b", Bytes{400});
  for (const int each : {a, b}) builder.op({.name = "uniform", .line = 1, .outputs = {each}});
  builder.op({.name = "sgd_", .line = 3, .inputs = {a, b}, .outputs = {a, b}, .phase = trace::Phase::optimizer});
  EXPECT_EQ(split_updates(builder.build()).ops.size(), 3u);
}

// Without the split the update would hold the table on the GPU.
TEST(SplitUpdates, ATableMovesWithItsPartOfTheUpdate) {
  const trace::Trace whole = two_parameters(), split = split_updates(whole);
  EXPECT_NE(plan_placement(Replay(whole), {.capacity = kGiB * 4}).reason, "");
  const Replay replay(split);
  const PlacementPlan plan = plan_placement(replay, {.capacity = kGiB * 4});
  EXPECT_EQ(plan.reason, "");
  EXPECT_LE(plan.peak, kGiB * 4);
  for (std::size_t i = 0; i < replay.groups().size(); ++i) {
    const Group& group = replay.groups()[i];
    if (split.ops[static_cast<std::size_t>(group.ops[0])].phase != trace::Phase::optimizer) continue;
    ASSERT_GE(group.leader, 0);
    EXPECT_EQ(plan.places[i], plan.places[static_cast<std::size_t>(group.leader)]);
    const bool is_of_table = split.ops[static_cast<std::size_t>(group.ops[0])].outputs[0].tensor == 0;
    if (is_of_table) {
      EXPECT_EQ(plan.places[i], cpu::device);
    }
  }
}

// Parameters get their values from ops that run where they are, and those from ops that do the same.
TEST(SplitUpdates, FirstValuesFollowTheirParameter) {
  TraceBuilder builder;
  const int table = builder.tensor("table", Bytes{4'000}), drawn = builder.tensor("drawn", Bytes{4'000});
  const int scaled = builder.tensor("scaled", Bytes{4'000});
  const auto inherited = trace::PlacementCause::inherited;
  builder.op({.name = "normal", .line = 20, .outputs = {table}});
  builder.op({.name = "uniform", .line = 70, .outputs = {drawn}, .cause = inherited});
  builder.op({.name = "mul", .line = 71, .inputs = {drawn}, .outputs = {scaled}, .cause = inherited});
  builder.op({.name = "copy_", .line = 72, .inputs = {table, scaled}, .outputs = {table}, .cause = inherited});
  const trace::Trace trace = builder.build();
  const Replay replay(trace);
  const PlacementUnits units = placement_units(replay);
  ASSERT_EQ(units.leaders.size(), 1u);
  EXPECT_THAT(units.unit_of, ::testing::Each(0));
}

// By op, the ops that lead the gradients of mean(tanh(x)), the one of tanh called so; `in_place`: it is written over
// the gradient that it comes from.
std::map<std::string, std::string> leaders_of_gradients(const char* gradient_of_tanh, bool in_place) {
  TraceBuilder builder;
  const int x = builder.tensor("x", Bytes{400}), y = builder.tensor("y", Bytes{400});
  const int loss = builder.tensor("loss", Bytes{4}), one = builder.tensor("one", Bytes{4});
  const int dy = builder.tensor("dy", Bytes{400}), dx = builder.tensor("dx", Bytes{400});
  const auto backward = [&](const char* name, int line, std::vector<ferry::testing::Arg> inputs, int output) {
    builder.op({.name = name,
                .line = line,
                .inputs = std::move(inputs),
                .outputs = {output},
                .cause = trace::PlacementCause::inherited,
                .phase = trace::Phase::backward});
  };
  builder.op({.name = "tanh", .line = 5, .inputs = {x}, .outputs = {y}});
  builder.op({.name = "mean", .line = 5, .inputs = {y}, .outputs = {loss}});
  backward("fill", 9, {}, one);
  backward("mul_scalar", 5, {one}, dy);
  backward(gradient_of_tanh, 5, {dy, y}, in_place ? dy : dx);
  const trace::Trace trace = builder.build();
  const Replay replay(trace);
  std::map<std::string, std::string> leader;
  for (const Group& group : replay.groups()) {
    if (group.leader >= 0)
      leader[trace.string(group.op)] = trace.string(replay.groups()[static_cast<std::size_t>(group.leader)].op);
  }
  return leader;
}

// The gradient of the loss, and ordinary ops within gradients, run where the forward op did.
TEST(SplitUpdates, GradientsFollowTheForwardOpBetween) {
  using Leaders = std::map<std::string, std::string>;
  EXPECT_EQ(leaders_of_gradients("tanh_backward", false),
            (Leaders{{"fill", "mean"}, {"mul_scalar", "mean"}, {"tanh_backward", "tanh"}}));
  EXPECT_EQ(leaders_of_gradients("tanh_backward_", true),
            (Leaders{{"fill", "mean"}, {"mul_scalar", "mean"}, {"tanh_backward_", "tanh"}}));
}

}  // namespace
}  // namespace ferry::placement
