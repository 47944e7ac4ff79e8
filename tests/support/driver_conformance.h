// One suite of tests that every Driver passes: what the layers above rely on, on each backend alike. A test binary
// compiles driver_conformance.cpp and instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, DriverConformance, testing::Values(DriverCase{…}), name_of_case);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "src/device/driver.h"

namespace ferry {

// Kernels that run where host kernels can: y = x + attributes.as<float>() for f32 vectors, and one that throws
// InvalidArgument("refused by the kernel").
void host_add_kernel(const KernelContext& context);
void host_refusing_kernel(const KernelContext& context);

struct DriverCase {
  std::string name;
  std::function<std::unique_ptr<Driver>()> make;
  Kernel add = host_add_kernel;          // the backend's own where device memory is not the host's
  Kernel refuse = host_refusing_kernel;  // null: the backend's kernels cannot fail
  bool own_memory = true;                // false: device memory is host memory, its capacity is not enforced
};

class DriverConformance : public ::testing::TestWithParam<DriverCase> {
 protected:
  static constexpr std::int64_t kElements = 1000;
  static constexpr Bytes kSize{kElements * 4};

  void SetUp() override { driver_ = GetParam().make(); }
  void TearDown() override;

  // Freed at the end of the test.
  float* device_vector();
  float* pinned_vector(float value);

  void add(float amount, const float* x, float* y, StreamId stream, std::uint64_t correlation = 0);
  void upload(float* device, const float* host, StreamId stream, HostMemory memory = HostMemory::pinned);
  void download(float* host, const float* device, StreamId stream, HostMemory memory = HostMemory::pinned);

  std::unique_ptr<Driver> driver_;
  std::vector<void*> device_blocks_, pinned_blocks_;
};

std::string name_of_case(const testing::TestParamInfo<DriverCase>& info);

}  // namespace ferry
