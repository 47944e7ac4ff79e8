#include "src/trace/trace_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include <ferry/error.h>
#include "tests/support/trace_builder.h"

namespace ferry::trace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string text_of(const Trace& trace) {
  std::ostringstream out;
  write_json(trace, out);
  return out.str();
}

Trace full_trace() {
  Trace trace = testing::shape_slice_crop();
  trace.tensors[0].dtype = DType::bf16;
  trace.tensors[0].shape = Shape{2, 0, 3};
  trace.ops[1].cause = PlacementCause::placement_file;
  trace.ops[1].phase = Phase::recompute;
  trace.ops[1].correlation = ~std::uint64_t{0};
  trace.ops[1].flops = 0.1;
  trace.copies[0].to_memory = Memory::pinned;
  trace.scopes.push_back({.name = 0, .thread = 3, .depth = 2, .begin = Nanoseconds(-5), .end = Nanoseconds(7)});
  trace.memory.push_back({.device = gpu::device, .at = Nanoseconds(9), .allocated = kGiB * 5, .reserved = kGiB * 6});
  trace.unavailable_reads = 4;
  return trace;
}

std::string error_of(const std::string& text) {
  try {
    read_json(text, "run.json");
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_after(const std::string& pointer, const json& value) {
  json document = json::parse(text_of(full_trace()));
  document[json::json_pointer(pointer)] = value;
  return error_of(document.dump());
}

TEST(TraceJson, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_EQ(error_of(R"({"ferry_trace": 1e999})").substr(0, 10), "run.json: ");
}

TEST(TraceJson, ReadsBackWhatItWrote) {
  const Trace trace = full_trace();
  const Trace read = read_json(text_of(trace), "run.json");
  EXPECT_EQ(text_of(read), text_of(trace));
  EXPECT_EQ(read.ops[1].correlation, ~std::uint64_t{0});
  EXPECT_EQ(read.ops[1].flops, 0.1);
  EXPECT_EQ(read.ops[1].phase, Phase::recompute);
  EXPECT_EQ(read.ops[1].cause, PlacementCause::placement_file);
  EXPECT_EQ(read.tensors[0].shape, (Shape{2, 0, 3}));
  EXPECT_EQ(read.tensors[0].dtype, DType::bf16);
  EXPECT_EQ(read.copies[0].to_memory, Memory::pinned);
  EXPECT_EQ(read.copies.back().cause, CopyCause::fetch);
  EXPECT_EQ(read.work.size(), trace.work.size());
  EXPECT_EQ(read.work.back().engine, Engine::device_to_host);
  EXPECT_EQ(read.scopes[0].begin, Nanoseconds(-5));
  EXPECT_EQ(read.memory[0].reserved, kGiB * 6);
  EXPECT_EQ(read.devices[1].streams, trace.devices[1].streams);
  EXPECT_EQ(read.copy_mode, "synchronous");
}

TEST(TraceJson, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(error_after("/ops/2/begin", "soon"), HasSubstr("run.json: field 'ops[2].begin' is not an integer"));
  EXPECT_THAT(error_after("/ops/2/device", "tpu"), HasSubstr("field 'ops[2].device' cannot be read: 'tpu'"));
  EXPECT_THAT(error_after("/copies/3/cause", "magic"), HasSubstr("'copies[3].cause' is none of implicit, fetch"));
  EXPECT_THAT(error_after("/tensors/0/dtype", "f8"), HasSubstr("'tensors[0].dtype'"));
  EXPECT_THAT(error_after("/tensors/0/shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 1})), HasSubstr("more than 8"));
  EXPECT_THAT(error_after("/copies/0/synchronous", 1), HasSubstr("'copies[0].synchronous' is not true or false"));
  EXPECT_THAT(error_after("/ops/0/thread", -1), HasSubstr("'ops[0].thread' is out of range"));
  EXPECT_THAT(error_after("/strings/1", 5), HasSubstr("'strings[1]' is not a string"));
  EXPECT_THAT(error_after("/work", 5), HasSubstr("'work' is not an array"));
  EXPECT_THAT(error_after("/work/0", 5), HasSubstr("'work[0]' is not an object"));
  json document = json::parse(text_of(full_trace()));
  document["copies"][1].erase("tensor");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("'copies[1].tensor' is missing"));
}

TEST(TraceJson, ChecksIndicesVersionsAndSyntax) {
  EXPECT_THAT(error_after("/copies/3/tensor", 999), HasSubstr("'copies[3].tensor' is 999, which is no index"));
  EXPECT_THAT(error_after("/ops/0/site", -2), HasSubstr("'ops[0].site' is -2"));
  EXPECT_THAT(error_after("/ops/0/inputs/0/tensor", 10'000), HasSubstr("'ops[0].inputs'"));
  EXPECT_THAT(error_after("/scopes/0/name", 10'000), HasSubstr("'scopes[0].name'"));
  EXPECT_THAT(error_after("/ferry_trace", 9), HasSubstr("is version 9; this ferry reads version 1"));
  EXPECT_THAT(error_of("{\"ferry_trace\": 1"), HasSubstr("run.json: byte 18"));
  EXPECT_THAT(error_of("{\"ferry_trace\": 1e999}"), HasSubstr("run.json: a number that does not fit: "));
  EXPECT_THAT(error_of("[]"), HasSubstr("is not an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("'ferry_trace' is missing"));
}

TEST(TraceJson, WritesNamesThatAreNoUtf8) {
  Trace trace;
  trace.strings = {"caf\xe9"};
  EXPECT_THAT(read_json(text_of(trace), "run.json").strings.at(0), HasSubstr("caf"));
}

}  // namespace
}  // namespace ferry::trace
