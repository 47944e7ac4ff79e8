#include "src/device/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include <nlohmann/json.hpp>

#include "src/device/builtin_specs.h"

namespace ferry {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using namespace std::chrono_literals;

json preset(std::string_view name) {
  for (const BuiltinSpec& spec : builtin_specs()) {
    if (spec.name == name) return json::parse(spec.json);
  }
  return {};
}

class SpecFile : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }

  DeviceSpec load(const std::string& text) {
    std::ofstream(path_) << text;
    return load_device_spec(path_);
  }
  std::string error_of(const std::string& text) {
    try {
      load(text);
    } catch (const ParseError& error) {
      return error.what();
    }
    return "no ParseError";
  }
  std::string error_after(const std::function<void(json&)>& change) {
    json document = preset("rtx2080ti");
    change(document);
    return error_of(document.dump());
  }

  const std::string path_ =
      testing::TempDir() + "ferry_spec_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST(DeviceSpec, PresetsOfTheDesignAreBuiltIn) {
  EXPECT_THAT(device_spec_names(), testing::ElementsAre("a100", "gtx1060", "gtx1080ti", "h100", "h200", "host", "p100",
                                                        "rtx2080ti", "titanv", "v100-16gb", "v100-32gb"));
}

TEST(DeviceSpec, EveryPresetLoadsAndNamesASourceForEachFigure) {
  for (const std::string& name : device_spec_names()) {
    SCOPED_TRACE(name);
    const DeviceSpec spec = load_device_spec(name);
    EXPECT_EQ(spec.name, name);
    EXPECT_FALSE(spec.description.empty());
    EXPECT_EQ(spec.sources.size(), 2u + kDTypeCount + kOpClassCount + 3u + 4u + 1u);
    for (const auto& [field, source] : spec.sources) EXPECT_GT(source.size(), 5u) << field;
  }
}

TEST(DeviceSpec, FiguresOfAKnownCard) {
  const DeviceSpec spec = load_device_spec("rtx2080ti");
  EXPECT_EQ(spec.memory, kGiB * 11);
  EXPECT_DOUBLE_EQ(spec.bytes_per_second, 616e9);
  EXPECT_DOUBLE_EQ(spec.flops_per_second[static_cast<int>(DType::f32)], 13.45e12);
  EXPECT_GT(spec.flops_per_second[static_cast<int>(DType::f16)], spec.flops_per_second[static_cast<int>(DType::f32)]);
}

TEST(DeviceSpec, UnknownNameListsThePresets) {
  try {
    load_device_spec("rtx9999");
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("rtx9999"));
    EXPECT_THAT(error.what(), HasSubstr("gtx1080ti, h100"));
  }
}

// A spec with round figures, so that durations can be worked out by hand.
DeviceSpec half_efficient_spec() {
  DeviceSpec spec;
  spec.bytes_per_second = 100e9;
  spec.flops_per_second.fill(1e12);
  spec.flops_per_second[static_cast<int>(DType::f16)] = 4e12;
  spec.efficiency.fill(0.5);
  spec.kernel_cost = 2us;
  spec.host_to_device = {.bytes_per_second = 10e9, .latency = 3us};
  spec.device_to_host = {.bytes_per_second = 5e9, .latency = 4us};
  spec.pageable_factor = 0.5;
  return spec;
}

TEST(DeviceSpec, DurationIsTheRoofThatBindsPlusTheFixedCost) {
  const DeviceSpec spec = half_efficient_spec();
  // 1e6 flops at 0.5e12/s = 2 us; 1e3 bytes at 50e9/s = 0.02 us.
  EXPECT_EQ(spec.duration({OpClass::matmul, 1e6, 1e3, DType::f32}), 4us);
  EXPECT_EQ(spec.duration({OpClass::matmul, 4e6, 1e3, DType::f16}), 4us);
  // 5e5 bytes at 50e9/s = 10 us.
  EXPECT_EQ(spec.duration({OpClass::elementwise, 1e6, 5e5, DType::f32}), 12us);
  EXPECT_EQ(spec.duration({}), 2us);
}

TEST(DeviceSpec, CopyDurationIsLatencyPlusBytesOverTheLink) {
  const DeviceSpec spec = half_efficient_spec();
  const Bytes size{100'000};
  EXPECT_EQ(spec.copy_duration(size, CopyDirection::host_to_device, HostMemory::pinned), 13us);
  EXPECT_EQ(spec.copy_duration(size, CopyDirection::host_to_device, HostMemory::pageable), 23us);
  EXPECT_EQ(spec.copy_duration(size, CopyDirection::device_to_host, HostMemory::pinned), 24us);
  // Inside the device each byte is read and written: 2e5 bytes at 50e9/s, and the kernel's fixed cost.
  EXPECT_EQ(spec.copy_duration(size, CopyDirection::device_to_device, HostMemory::pinned), 6us);
}

TEST_F(SpecFile, LoadsWhatAPresetSays) {
  json document = preset("rtx2080ti");
  document["name"] = "mine";
  document["memory"]["bytes"] = 12345;
  const DeviceSpec spec = load(document.dump());
  EXPECT_EQ(spec.name, "mine");
  EXPECT_EQ(spec.memory, Bytes{12345});
}

TEST_F(SpecFile, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_NE(error_of(R"({"name": 1e999})").find(path_), std::string::npos);
}

TEST_F(SpecFile, MissingFileIsNamed) {
  EXPECT_THROW(load_device_spec("no/such/spec.json"), ParseError);
  EXPECT_THROW(load_device_spec("spec-that-is-not-there.json"), ParseError);
  EXPECT_THROW(load_device_spec("/"), ParseError);
}

TEST_F(SpecFile, BrokenJsonNamesFileAndByte) {
  const std::string error = error_of("{\"name\": }");
  EXPECT_THAT(error, HasSubstr(path_));
  EXPECT_THAT(error, HasSubstr("byte 10"));
}

TEST_F(SpecFile, WrongFieldsAreNamed) {
  EXPECT_THAT(error_of("[]"), HasSubstr("the spec must be an object"));
  EXPECT_THAT(error_after([](json& d) { d.erase("launch_cost"); }), HasSubstr("missing field launch_cost"));
  EXPECT_THAT(error_after([](json& d) { d["colour"] = 1; }), HasSubstr("unknown field colour"));
  EXPECT_THAT(error_after([](json& d) { d["throughput"]["f12"] = 1; }), HasSubstr("unknown field throughput.f12"));
  EXPECT_THAT(error_after([](json& d) { d["efficiency"]["gather"].erase("source"); }),
              HasSubstr("missing field efficiency.gather.source"));
  EXPECT_THAT(error_after([](json& d) { d["memory"]["bits"] = 8; }), HasSubstr("unknown field memory.bits"));
  EXPECT_THAT(error_after([](json& d) { d["name"] = ""; }), HasSubstr("name must be a text"));
}

TEST_F(SpecFile, FiguresMustBePositiveNumbers) {
  const auto bandwidth = [&](const json& value) {
    return error_after([&](json& d) { d["host_to_device"]["bandwidth"]["bytes_per_second"] = value; });
  };
  const std::string expected = "host_to_device.bandwidth.bytes_per_second must be a positive number";
  EXPECT_THAT(bandwidth(0), HasSubstr(expected));
  EXPECT_THAT(bandwidth(-3.5), HasSubstr(expected));
  EXPECT_THAT(bandwidth("12"), HasSubstr(expected));
  EXPECT_THAT(error_after([](json& d) { d["efficiency"]["matmul"]["fraction"] = 1.2; }),
              HasSubstr("efficiency.matmul.fraction is 1.2"));
}

}  // namespace
}  // namespace ferry
