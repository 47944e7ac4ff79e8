#include "profiler/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ferry::profiler {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::SizeIs;

constexpr Shape kShape{2, 3};

TensorMention mention(std::uint64_t id, std::string_view producer, const std::string* name = nullptr) {
  return {.id = id, .producer = producer, .number = id, .name = name, .shape = &kShape};
}

OpEvent op_at(std::string_view op, Nanoseconds begin, Nanoseconds end,
              std::source_location where = std::source_location::current()) {
  return {.op = op, .where = where, .begin = begin, .end = end};
}

TEST(Recorder, KeepsEveryFieldOfAnOp) {
  Recorder recorder;
  const std::vector<TensorMention> inputs{mention(7, "uniform"), mention(0, "")};
  TensorMention output = mention(9, "slice");
  output.host = true;
  OpEvent event = op_at("slice", 100ns, 350ns);
  event.scope = "layer1.0";
  event.device = gpu::device;
  event.cause = trace::PlacementCause::guard;
  event.phase = trace::Phase::backward;
  event.has_gpu_kernel = false;
  event.correlation = 41;
  event.flops = 12.5;
  event.bytes = 48;
  event.inputs = inputs;
  event.outputs = {&output, 1};
  recorder.record_op(event);

  const trace::Trace trace = recorder.finish();
  ASSERT_THAT(trace.ops, SizeIs(1));
  const trace::OpRecord& op = trace.ops[0];
  EXPECT_EQ(trace.string(op.name), "slice");
  EXPECT_EQ(trace.string(op.scope), "layer1.0");
  EXPECT_EQ(trace.sites[static_cast<std::size_t>(op.site)].line, static_cast<int>(event.where.line()));
  EXPECT_EQ(trace.sites[static_cast<std::size_t>(op.site)].file, event.where.file_name());
  EXPECT_EQ(op.device, gpu::device);
  EXPECT_EQ(op.cause, trace::PlacementCause::guard);
  EXPECT_EQ(op.phase, trace::Phase::backward);
  EXPECT_FALSE(op.has_gpu_kernel);
  EXPECT_EQ(op.correlation, 41u);
  EXPECT_EQ(op.begin, 100ns);
  EXPECT_EQ(op.end, 350ns);
  EXPECT_EQ(op.flops, 12.5);
  EXPECT_EQ(op.bytes, 48);
  ASSERT_THAT(op.inputs, SizeIs(2));
  EXPECT_EQ(op.inputs[1].tensor, -1);
  ASSERT_THAT(op.outputs, SizeIs(1));
  EXPECT_TRUE(op.outputs[0].host);
  EXPECT_FALSE(op.inputs[0].host);
  EXPECT_EQ(trace.tensors[0].name, "uniform_7");
  EXPECT_EQ(trace.tensors[0].size, Bytes{24});
  EXPECT_EQ(trace.tensors[1].shape, kShape);
}

TEST(Recorder, InternsStringsAndSitesByContentAndTensorsById) {
  Recorder recorder;
  const std::string first = "mat", second = std::string("mat");
  const auto where = std::source_location::current();
  const TensorMention tensor = mention(3, "matmul");
  for (const std::string* text : {&first, &second}) {
    OpEvent event = op_at(*text, 1ns, 2ns, where);
    event.inputs = {&tensor, 1};
    recorder.record_op(event);
  }
  const trace::Trace trace = recorder.finish();
  EXPECT_THAT(trace.strings, ElementsAre("mat"));
  EXPECT_THAT(trace.sites, SizeIs(1));
  EXPECT_THAT(trace.tensors, SizeIs(1));
}

TEST(Recorder, TakesTheNameATensorGetsAfterItsFirstUse) {
  Recorder recorder;
  const std::string name = "weights";
  for (const std::string* given : {static_cast<const std::string*>(nullptr), &name}) {
    const TensorMention tensor = mention(3, "uniform", given);
    OpEvent event = op_at("add", 1ns, 2ns);
    event.inputs = {&tensor, 1};
    recorder.record_op(event);
  }
  EXPECT_EQ(recorder.finish().tensors.at(0).name, "weights");
}

TEST(Recorder, JoinsACopyToTheOpThatNeededIt) {
  Recorder recorder;
  const auto where = std::source_location::current();
  const TensorMention tensor = mention(5, "shape");
  const auto copy = [&](std::string_view op, Nanoseconds begin, Nanoseconds end, trace::CopyCause cause) {
    recorder.record_copy({.op = op,
                          .where = where,
                          .scope = {},
                          .tensor = tensor,
                          .size = Bytes{24},
                          .from = cpu::device,
                          .to = gpu::device,
                          .synchronous = true,
                          .cause = cause,
                          .begin = begin,
                          .end = end});
  };
  copy("slice", 12ns, 18ns, trace::CopyCause::implicit);
  recorder.record_op(op_at("slice", 10ns, 20ns, where));
  copy("fetch", 30ns, 40ns, trace::CopyCause::fetch);
  copy("slice", 52ns, 58ns, trace::CopyCause::implicit);
  recorder.record_op(op_at("slice", 50ns, 60ns, where));

  const trace::Trace trace = recorder.finish();
  ASSERT_THAT(trace.copies, SizeIs(3));
  EXPECT_EQ(trace.copies[0].op, 0);
  EXPECT_EQ(trace.copies[1].op, -1);
  EXPECT_EQ(trace.copies[2].op, 1);
  EXPECT_EQ(trace.copies[0].from, cpu::device);
  EXPECT_EQ(trace.copies[0].to, gpu::device);
  EXPECT_EQ(trace.copies[0].size, Bytes{24});
}

TEST(Recorder, SplitsTheWaitOfASynchronousCopyAtTheStartOfItsWork) {
  Recorder recorder;
  const TensorMention tensor = mention(5, "matmul");
  const auto record = [&](bool synchronous, trace::CopyCause cause) {
    const std::uint64_t correlation = recorder.next_correlation();
    recorder.record_copy({.op = "crop",
                          .where = std::source_location::current(),
                          .scope = {},
                          .tensor = tensor,
                          .size = Bytes{8},
                          .from = gpu::device,
                          .to = cpu::device,
                          .synchronous = synchronous,
                          .cause = cause,
                          .correlation = correlation,
                          .begin = 100ns,
                          .end = 190ns});
    recorder.on_work({.correlation = correlation,
                      .kind = trace::WorkKind::copy,
                      .engine = trace::Engine::device_to_host,
                      .device = gpu::device,
                      .begin = 160ns,
                      .end = 190ns});
  };
  record(true, trace::CopyCause::implicit);
  record(false, trace::CopyCause::implicit);
  record(false, trace::CopyCause::fetch);
  const trace::Trace trace = recorder.finish();
  EXPECT_EQ(trace.copies[0].drain, 60ns);
  EXPECT_EQ(trace.copies[0].transfer, 30ns);
  EXPECT_EQ(trace.copies[1].drain + trace.copies[1].transfer, 0ns);
  EXPECT_EQ(trace.copies[2].drain, 60ns);
  ASSERT_THAT(trace.work, SizeIs(3));
  EXPECT_EQ(trace.work[0].engine, trace::Engine::device_to_host);
}

TEST(Recorder, MergesThreadsByTimeThenThreadThenOrder) {
  Recorder recorder;
  recorder.record_op(op_at("first", 10ns, 11ns));
  std::thread([&] {
    recorder.record_op(op_at("early", 5ns, 6ns));
    recorder.record_op(op_at("second", 10ns, 11ns));
    recorder.record_op(op_at("third", 10ns, 12ns));
    recorder.record_scope("epoch", 2, 4ns, 20ns);
    recorder.record_memory(gpu::device, 9ns, Bytes{512}, Bytes{1024});
  }).join();
  const trace::Trace trace = recorder.finish();
  std::vector<std::string> names;
  for (const trace::OpRecord& op : trace.ops) names.push_back(trace.string(op.name));
  EXPECT_THAT(names, ElementsAre("early", "first", "second", "third"));
  EXPECT_EQ(trace.ops[0].thread, 1u);
  EXPECT_EQ(trace.ops[1].thread, 0u);
  ASSERT_THAT(trace.scopes, SizeIs(1));
  EXPECT_EQ(trace.scopes[0].depth, 2);
  EXPECT_EQ(trace.string(trace.scopes[0].name), "epoch");
  ASSERT_THAT(trace.memory, SizeIs(1));
  EXPECT_EQ(trace.memory[0].reserved, Bytes{1024});
}

TEST(Recorder, ReadsCompleteRecordsWhileAnotherThreadWrites) {
  Recorder recorder;
  constexpr int kOps = 20'000;
  std::thread writer([&] {
    for (int i = 1; i <= kOps; ++i) {
      const TensorMention tensor = mention(static_cast<std::uint64_t>(i), "add");
      OpEvent event = op_at("add", Nanoseconds(i), Nanoseconds(i + 1));
      event.outputs = {&tensor, 1};
      recorder.record_op(event);
    }
  });
  std::size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const trace::Trace trace = recorder.finish();
    EXPECT_GE(trace.ops.size(), before);
    for (const trace::OpRecord& op : trace.ops) ASSERT_THAT(op.outputs, SizeIs(1));
    before = trace.ops.size();
  }
  writer.join();
  const trace::Trace trace = recorder.finish();
  ASSERT_THAT(trace.ops, SizeIs(kOps));
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    ASSERT_EQ(trace.ops[i].begin, Nanoseconds(static_cast<std::int64_t>(i) + 1));
    ASSERT_EQ(trace.tensors[i].name, "add_" + std::to_string(i + 1));
  }
}

TEST(Recorder, KeepsApartTwoRecordersUsedInTurn) {
  Recorder one;
  {
    Recorder two;
    one.record_op(op_at("a", 1ns, 2ns));
    two.record_op(op_at("b", 1ns, 2ns));
    two.count_unavailable_read();
    one.record_op(op_at("c", 2ns, 3ns));
    EXPECT_THAT(two.finish().ops, SizeIs(1));
    EXPECT_EQ(two.finish().unavailable_reads, 1);
  }
  Recorder three;
  three.record_op(op_at("d", 1ns, 2ns));
  EXPECT_THAT(one.finish().ops, SizeIs(2));
  EXPECT_EQ(three.finish().strings.at(0), "d");
}

TEST(Recorder, KeepsNamesOfAnyLengthAndExtremeNumbers) {
  Recorder recorder;
  const std::string scope(200'000, 's');
  recorder.record_scope(scope, 0, Nanoseconds::min() / 4, Nanoseconds::max() / 4);
  recorder.record_scope("next", 1, 0ns, 1ns);
  const trace::Trace trace = recorder.finish();
  ASSERT_THAT(trace.scopes, SizeIs(2));
  EXPECT_EQ(trace.string(trace.scopes[0].name), scope);
  EXPECT_EQ(trace.scopes[0].begin, Nanoseconds::min() / 4);
  EXPECT_EQ(trace.scopes[0].end, Nanoseconds::max() / 4);
  EXPECT_EQ(trace.string(trace.scopes[1].name), "next");
}

}  // namespace
}  // namespace ferry::profiler
