#include "swap/dtr_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include <ferry/error.h>
#include "swap/log_file.h"

namespace ferry::swap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x, w are constants; y = op(x, w); v = view(y); y += w in place; z = op(v).
constexpr const char* kLog = R"({"INSTRUCTION":"CONSTANT","NAME":"old"}
{"INSTRUCTION":"MEMORY","NAME":"old","MEMORY":"1"}
{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}
{"INSTRUCTION":"CONSTANT","NAME":"x"}
{"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":"100"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","NAME":"w","MEMORY":"10"}
{"INSTRUCTION":"CALL","NAME":"op","ARGS":["x","w","x"],"RESULT":["y","s"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","NAME":"y","MEMORY":"40"}
{"INSTRUCTION":"ALIAS","NAME":"y","ALIAS":"-1"}
{"INSTRUCTION":"MEMORY","NAME":"s","MEMORY":"2"}
{"INSTRUCTION":"ALIAS","NAME":"s","ALIAS":"-1"}
{"INSTRUCTION":"CALL","NAME":"view","ARGS":["y"],"RESULT":["v"],"TIME":"1"}
{"INSTRUCTION":"MEMORY","NAME":"v","MEMORY":"40"}
{"INSTRUCTION":"ALIAS","NAME":"v","ALIAS":"0"}
{"INSTRUCTION":"MUTATE","NAME":"add_","ARGS":["y","w"],"MUTATE":[0],"TIME":"3"}
{"INSTRUCTION":"COPY","DST":"again","SRC":"v"}
{"INSTRUCTION":"RELEASE","NAME":"v"}
{"INSTRUCTION":"RELEASE","NAME":"unknown"}
{"INSTRUCTION":"ANNOTATE","ANNOTATION":"BACKWARD"}
{"INSTRUCTION":"CALL","NAME":"op2","ARGS":["again"],"RESULT":["z"],"TIME":"7"}
{"INSTRUCTION":"MEMORY","NAME":"z","MEMORY":"20"}
{"INSTRUCTION":"ALIAS","NAME":"z","ALIAS":"-1"}
{"INSTRUCTION":"COPY_FROM","DST":"again","SRC":"z"}
)";

TEST(DtrLog, ReadsOpsViewsMutationsAndReferences) {
  const Iteration iteration = read_dtr_log(kLog, "small.log");
  ASSERT_EQ(iteration.ops.size(), 4u);
  EXPECT_EQ(iteration.ops[0].name, "op");
  EXPECT_EQ(iteration.ops[0].time, Nanoseconds(5));
  EXPECT_THAT(iteration.ops[0].inputs, ElementsAre(0, 1));
  EXPECT_THAT(iteration.ops[0].outputs, ElementsAre(2, 3));
  EXPECT_EQ(iteration.tensors[4].storage, iteration.tensors[2].storage) << "a view";
  EXPECT_EQ(iteration.storages[static_cast<std::size_t>(iteration.tensors[5].storage)].size, Bytes{40})
      << "an op in place makes a fresh storage";
  EXPECT_TRUE(iteration.storages[0].pinned);
  // y's first storage lives until `again`, the last name of its view, is bound elsewhere.
  const Event last = iteration.events.back();
  EXPECT_EQ(last.kind, Event::Kind::release);
  EXPECT_EQ(last.index, iteration.tensors[2].storage);
  EXPECT_THAT(iteration.kept, ElementsAre(0, 1, 3, 5, 6));
  const Unconstrained base = unconstrained(iteration);
  EXPECT_EQ(base.peak, Bytes{100 + 10 + 40 + 2 + 40 + 20});
  EXPECT_EQ(base.time, Nanoseconds(16));
}

TEST(DtrLog, IsRecognised) {
  EXPECT_TRUE(is_dtr_log(kLog));
  EXPECT_FALSE(is_dtr_log("{\"ferry_trace\": 1}"));
  EXPECT_FALSE(is_dtr_log(""));
  EXPECT_FALSE(is_dtr_log("nonsense"));
}

std::string error_of(const std::string& text) {
  try {
    read_dtr_log(text, "bad.log");
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DtrLog, ErrorsNameTheLine) {
  const std::string constant = R"({"INSTRUCTION":"CONSTANT","NAME":"x"})"
                               "\n"
                               R"({"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":"100"})"
                               "\n";
  EXPECT_THAT(error_of(""), HasSubstr("no op was called"));
  EXPECT_THAT(error_of("{}\n"), HasSubstr("bad.log:1: the line has no text field 'INSTRUCTION'"));
  EXPECT_THAT(error_of("[1]\n"), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(constant + "{\"INSTRUC"), HasSubstr("bad.log:3: the line is no JSON object"));
  EXPECT_THAT(error_of(R"({"INSTRUCTION":"CONSTANT","NAME":"x"})"), HasSubstr("should be the MEMORY of 'x'"));
  EXPECT_THAT(error_of(constant + constant), HasSubstr("defines 'x' again"));
  EXPECT_THAT(error_of(R"({"INSTRUCTION":"DANCE"})"), HasSubstr("unknown instruction 'DANCE'"));
  const auto call = [&](const std::string& arguments, const std::string& time, const std::string& alias) {
    return constant + R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[)" + arguments + R"(],"RESULT":["y"],"TIME":")" +
           time + "\"}\n" + R"({"INSTRUCTION":"MEMORY","NAME":"y","MEMORY":"1"})" + "\n" +
           R"({"INSTRUCTION":"ALIAS","NAME":"y","ALIAS":")" + alias + "\"}\n";
  };
  EXPECT_EQ(error_of(call("\"x\"", "1", "0")), "no error");
  EXPECT_THAT(error_of(call("\"q\"", "1", "0")), HasSubstr("bad.log:3: the line uses 'q'"));
  EXPECT_THAT(error_of(call("7", "1", "0")), HasSubstr("something else than names"));
  EXPECT_THAT(error_of(call("\"x\"", "-1", "0")), HasSubstr("negative TIME"));
  EXPECT_THAT(error_of(call("\"x\"", "1.5", "0")), HasSubstr("no number"));
  EXPECT_THAT(error_of(call("\"x\"", "99999999999999999999", "0")), HasSubstr("no number"));
  EXPECT_THAT(error_of(call("\"x\"", "1", "1")), HasSubstr("alias of no argument"));
}

TEST(LogFile, SaysWhatCannotBeRead) {
  EXPECT_THROW(read_iteration("no/such/file.log"), ParseError);
  const std::string path = ::testing::TempDir() + "ferry_small.log";
  std::ofstream(path) << kLog;
  EXPECT_EQ(read_iteration(path).ops.size(), 4u);
  std::ofstream(path) << "neither log nor trace";
  EXPECT_THROW(read_iteration(path), ParseError);
  std::ofstream(path, std::ios::binary) << "\x1f\x8b\x08 cut off";
  EXPECT_THROW(read_iteration(path), ParseError);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ferry::swap
