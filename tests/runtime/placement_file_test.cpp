// Placement files act like guards at sites, in scopes and around ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include <ferry/scope.h>
#include "tests/runtime/training_step.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlacementFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        (std::filesystem::temp_directory_path() / (std::string("ferry_placement_") + test->name() + ".json")).string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Backend with(const std::string& content) {
    std::ofstream(path_) << content;
    Backend backend = sim_backend();
    backend.options.placement_file = path_;
    return backend;
  }

  std::string path_;
};

// Its line is the one that rules name.
Tensor doubled(const Tensor& x, std::source_location where = std::source_location::current()) {
  return mul(x, 2, where);
}

TEST_F(PlacementFile, ByCallSite) {
  const int line = __LINE__ + 4;
  CheckedRuntime runtime(
      with(fmt::format(R"({{"rules": [{{"site": "placement_file_test.cpp:{}", "device": "cpu"}}]}})", line)));
  const Tensor x = from_vector<float>({1, 2});
  const Tensor here = doubled(x);
  const Tensor there = doubled(x);
  EXPECT_EQ(here.device(), cpu::device);
  EXPECT_EQ(there.device(), gpu::device);
}

TEST_F(PlacementFile, ByOpAndOverGuards) {
  CheckedRuntime runtime(with(R"({"rules": [{"op": "mul*", "device": "cpu"}, {"op": "add*", "device": "gpu"}]})"));
  const Tensor x = from_vector<float>({1, 2});
  EXPECT_EQ((x * x).device(), cpu::device);
  EXPECT_EQ((x * 2.0).device(), cpu::device);
  EXPECT_EQ(tanh(x).device(), gpu::device);
  const DeviceGuard<cpu> guard;
  EXPECT_EQ((x + x).device(), gpu::device);
  EXPECT_EQ(tanh(x).device(), cpu::device);
}

TEST_F(PlacementFile, FirstRuleThatHoldsWins) {
  CheckedRuntime runtime(
      with(R"({"rules": [{"op": "add", "scope": "inner*", "device": "gpu"}, {"op": "add", "device": "cpu"}]})"));
  const Tensor x = from_vector<float>({1, 2});
  EXPECT_EQ((x + x).device(), cpu::device);
  const Scope scope("inner_loop");
  EXPECT_EQ((x + x).device(), gpu::device);
}

TEST_F(PlacementFile, ByModuleScope) {
  CheckedRuntime runtime(with(R"({"rules": [{"scope": "*conv", "device": "cpu"}]})"));
  const nn::Conv2d alone(1, 1, {1, 1});
  TrainingStep model;
  model.step(0);
  const TrainingStep unused;
  EXPECT_EQ(alone.weight.device(), gpu::device);
}

TEST_F(PlacementFile, ResultsStayTheSame) {
  const auto trained = [](const Backend& backend) {
    CheckedRuntime runtime(backend);
    TrainingStep model;
    for (int i = 0; i < 2; ++i) model.step(i);
    return model.parameter_values();
  };
  const auto expected = trained(sim_backend());
  EXPECT_EQ(trained(with(R"({"rules": [{"op": "conv2d", "device": "cpu"}]})")), expected);
  EXPECT_EQ(trained(with(R"({"rules": [{"scope": "*head*", "device": "cpu"}, {"op": "relu", "device": "cpu"}]})")),
            expected);
}

TEST_F(PlacementFile, FromTheEnvironment) {
  const Backend backend = with(R"({"rules": [{"op": "tanh", "device": "cpu"}]})");
  ::setenv("FERRY_PLACEMENT", backend.options.placement_file.c_str(), 1);
  {
    CheckedRuntime runtime(sim_backend());
    EXPECT_EQ(tanh(from_vector<float>({1})).device(), cpu::device);
  }
  ::unsetenv("FERRY_PLACEMENT");
  CheckedRuntime runtime(sim_backend());
  EXPECT_EQ(tanh(from_vector<float>({1})).device(), gpu::device);
}

TEST_F(PlacementFile, BadFilesNameFileRuleAndField) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "byte"},
      {"{\"rules\": [}", "byte"},
      {"[]", "'rules'"},
      {"{}", "'rules'"},
      {R"({"rules": {}})", "'rules'"},
      {R"({"rules": [3]})", "rule 0"},
      {R"({"rules": [{"op": "add"}]})", "device"},
      {R"({"rules": [{"op": "add", "device": "tpu"}]})", "tpu"},
      {R"({"rules": [{"op": "add", "device": 1}]})", "'device'"},
      {R"({"rules": [{"device": "cpu"}]})", "at least one"},
      {R"({"rules": [{"op": "add", "device": "cpu"}, {"opp": "add", "device": "cpu"}]})", "rule 1"},
      {R"({"rules": [{"site": "main.cpp", "device": "cpu"}]})", "FILE:LINE"},
      {R"({"rules": [{"site": "main.cpp:x", "device": "cpu"}]})", "FILE:LINE"},
      {R"({"rules": [{"site": ":3", "device": "cpu"}]})", "FILE:LINE"},
      {R"({"rules": [{"op": 3, "device": "cpu"}]})", "'op'"},
  };
  for (const auto& [content, expected] : bad) {
    const Backend backend = with(content);
    EXPECT_THAT(message_of<ParseError>([&] { CheckedRuntime runtime(backend); }),
                AllOf(HasSubstr(path_), HasSubstr(expected)))
        << content;
  }
  Backend missing = sim_backend();
  missing.options.placement_file = path_ + ".missing";
  EXPECT_THAT(message_of<ParseError>([&] { CheckedRuntime runtime(missing); }), HasSubstr(".missing"));
  Backend folder = sim_backend();
  folder.options.placement_file = "/";
  EXPECT_THAT(message_of<ParseError>([&] { CheckedRuntime runtime(folder); }), HasSubstr("cannot be read"));
}

TEST_F(PlacementFile, ADeviceThatTheRuntimeLacksIsAnErrorAtOnce) {
  Backend backend = with(R"({"rules": [{"op": "add", "device": "gpu:0"}, {"op": "no_such_op", "device": "gpu:3"}]})");
  EXPECT_THAT(message_of<InvalidArgument>([&] { CheckedRuntime runtime(backend); }),
              AllOf(HasSubstr(path_), HasSubstr("rule 1: there is no gpu:3"), HasSubstr("sim:rtx2080ti")));
  backend.options.device = "cpu";
  EXPECT_THAT(message_of<InvalidArgument>([&] { CheckedRuntime runtime(backend); }), HasSubstr("no gpu:0"));
}

TEST_F(PlacementFile, ScopesMatchFromAnyPartOfThePath) {
  CheckedRuntime runtime(with(R"({"rules": [{"scope": "encoder*", "device": "cpu"}]})"));
  const Tensor x = from_vector<float>({1, 2});
  {
    const Scope step("step");
    EXPECT_EQ((x + x).device(), gpu::device);
    const Scope encoder("encoder"), embedding("embedding");
    EXPECT_EQ((x + x).device(), cpu::device);
  }
  const Scope encoder("encoder");
  EXPECT_EQ((x + x).device(), cpu::device);
  const Scope other("decoder");
  EXPECT_EQ((x + x).device(), cpu::device);  // "encoder/decoder" begins with encoder
}

TEST_F(PlacementFile, ScopesDoNotMatchFromTheMiddleOfAPart) {
  CheckedRuntime runtime(with(R"({"rules": [{"scope": "coder*", "device": "cpu"}]})"));
  const Tensor x = from_vector<float>({1, 2});
  const Scope encoder("encoder");
  EXPECT_EQ((x + x).device(), gpu::device);
}

TEST_F(PlacementFile, RulesThatAppliedToNothingAreNamedAtTheEnd) {
  ::testing::internal::CaptureStderr();
  {
    CheckedRuntime runtime(
        with(R"({"rules": [{"op": "add", "device": "cpu"}, {"scope": "encodr*", "device": "cpu"}]})"));
    const Tensor x = from_vector<float>({1, 2});
    EXPECT_EQ((x + x).device(), cpu::device);
  }
  const std::string output = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(output, '\n'), 1) << output;
  EXPECT_THAT(output, AllOf(HasSubstr(path_ + "', rule 1 applied to no op"), HasSubstr("encodr*")));
}

}  // namespace
}  // namespace ferry::test
