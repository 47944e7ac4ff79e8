#include "src/device/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Device kGpu{DeviceType::gpu, 0};

std::string error_of_loading(const std::string& path) {
  try {
    Plugin::load(path);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no DeviceError";
}

TEST(Plugin, LoadsAndCountsItsDevices) {
  const auto plugin = Plugin::load(STUB_PLUGIN);
  EXPECT_EQ(plugin->name(), "stub");
  std::string reason = "untouched";
  EXPECT_EQ(plugin->device_count(&reason), 2);
  EXPECT_EQ(reason, "");
  EXPECT_EQ(plugin->make_driver(0, kGpu)->info().name, "stub:0");
  EXPECT_EQ(plugin->make_driver(1, {DeviceType::gpu, 1})->info().name, "stub:1");
}

TEST(Plugin, DriversMayOutliveIt) {
  std::unique_ptr<Driver> driver = Plugin::load(STUB_PLUGIN)->make_driver(1, kGpu);
  void* const block = driver->allocate(kKiB);
  EXPECT_NE(block, nullptr);
  driver->free(block, kKiB);
}

TEST(Plugin, ADeviceThatIsNotThereIsRefused) {
  const auto plugin = Plugin::load(STUB_PLUGIN);
  EXPECT_THROW(plugin->make_driver(2, kGpu), InvalidArgument);
  EXPECT_THROW(plugin->make_driver(-1, kGpu), InvalidArgument);
}

TEST(Plugin, NoDevicesComeWithAReason) {
  const auto plugin = Plugin::load(STUB_PLUGIN_WITHOUT_DEVICES);
  std::string reason;
  EXPECT_EQ(plugin->device_count(&reason), 0);
  EXPECT_EQ(reason, "the stub was built without devices");
  EXPECT_EQ(plugin->device_count(nullptr), 0);
}

TEST(Plugin, AnotherInterfaceVersionIsRefusedWithBothVersions) {
  EXPECT_THAT(
      error_of_loading(STUB_PLUGIN_OF_ANOTHER_ABI),
      AllOf(HasSubstr(STUB_PLUGIN_OF_ANOTHER_ABI), HasSubstr("version " + std::to_string(kPluginAbiVersion + 1)),
            HasSubstr("version " + std::to_string(kPluginAbiVersion))));
}

TEST(Plugin, AMissingFileIsNamed) {
  EXPECT_THAT(error_of_loading("no/such/libferry_none.so"),
              AllOf(HasSubstr("no/such/libferry_none.so"), HasSubstr("cannot be loaded")));
}

TEST(Plugin, AFileThatIsNoLibraryIsRefused) {
  const std::string path = testing::TempDir() + "ferry_no_library.so";
  std::ofstream(path) << "not a library";
  EXPECT_THAT(error_of_loading(path), AllOf(HasSubstr(path), HasSubstr("cannot be loaded")));
  std::remove(path.c_str());
}

TEST(Plugin, ALibraryThatIsNoPluginIsRefused) {
  EXPECT_THAT(error_of_loading("libm.so.6"), AllOf(HasSubstr("libm.so.6"), HasSubstr("is no ferry plug-in")));
}

}  // namespace
}  // namespace ferry
