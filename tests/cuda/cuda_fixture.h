// Drivers of the CUDA plug-in on the stand-in for the CUDA runtime.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/device/plugin.h"
#include "tests/fake_cudart/fake_cudart.h"
#include "tests/support/runtime_fixture.h"

namespace ferry {

constexpr StreamId kCompute{0};

inline std::unique_ptr<Driver> make_fake_cuda(int index = 0) {
  return Plugin::load(FERRY_CUDA_ON_HOST)->make_driver(index, {DeviceType::gpu, 0});
}

// A machine of its own for each test, which leaves nothing behind.
class OnFakeCuda : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::reset(); }
  void TearDown() override {
    EXPECT_EQ(fake_cuda::device_bytes(), 0u);
    EXPECT_EQ(fake_cuda::pinned_bytes(), 0u);
    EXPECT_EQ(fake_cuda::live_streams(), 0);
    EXPECT_EQ(fake_cuda::live_events(), 0);
    fake_cuda::reset();
  }
};

namespace test {

inline Backend cuda_backend() {
  return {"cuda", {.device = std::string("plugin:") + FERRY_CUDA_ON_HOST, .check_ordering = true}};
}

}  // namespace test
}  // namespace ferry
