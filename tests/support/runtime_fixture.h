// Runtimes for tests: on the CPU and on simulated GPUs of several kinds, with accesses checked for order, and a check
// at the end that nothing is left behind.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <ferry/error.h>
#include <ferry/runtime.h>
#include "src/memory/staging_ring.h"
#include "src/runtime/current.h"
#include "tests/support/fault_injecting_driver.h"

namespace ferry::test {

struct Backend {
  std::string name;
  RuntimeOptions options;
};

inline std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

inline Backend cpu_backend() { return {"cpu", {.device = "cpu", .check_ordering = true}}; }
inline Backend sim_backend() {
  return {"sim", {.device = "sim:rtx2080ti", .device_memory = kMiB * 512, .check_ordering = true}};
}
// Queued work is carried out in a legal order chosen by the seed.
inline Backend adversarial_backend(std::uint64_t seed) {
  Backend backend = sim_backend();
  backend.name = "sim_adversarial_" + std::to_string(seed);
  backend.options.order = {.adversarial = true, .seed = seed};
  return backend;
}
inline Backend synchronous_backend() {
  Backend backend = sim_backend();
  backend.name = "sim_synchronous";
  backend.options.copy_mode = CopyMode::synchronous;
  return backend;
}
inline Backend timing_only_backend() {
  Backend backend = sim_backend();
  backend.name = "sim_timing_only";
  backend.options.values = false;
  return backend;
}
inline std::vector<Backend> all_backends() {
  return {cpu_backend(), sim_backend(), adversarial_backend(7), synchronous_backend()};
}

// Adds a failure to the running test for every byte that tensors of the runtime still hold. The staging ring keeps its
// slabs.
inline void expect_nothing_live(Runtime& runtime) {
  try {
    runtime.synchronize();
  } catch (const Error& error) {
    ADD_FAILURE() << "work still queued at the end failed: " << error.what();
  }
  EXPECT_EQ(runtime.live_bytes().count, 0);
  for (const DeviceDescription& device : runtime.devices()) {
    const MemoryStats stats = runtime.memory_stats(device.device);
    EXPECT_EQ(stats.allocated.count, 0) << device.name;
    EXPECT_EQ(stats.pinned_allocated.count % StagingRingOptions{}.slab.count, 0) << device.name;
  }
}

// Adds a failure for everything that the device's driver still holds.
inline void expect_all_returned(const Faults& faults) {
  EXPECT_EQ(faults.live_device_bytes().count, 0);
  EXPECT_EQ(faults.live_pinned_bytes().count, 0);
  EXPECT_EQ(faults.live_events(), 0);
  EXPECT_EQ(faults.live_streams(), 0);
}

// A runtime that is current in its scope and leaves nothing behind. Faults can be injected into its drivers.
class CheckedRuntime {
 public:
  explicit CheckedRuntime(const Backend& backend, HostAllocatorOptions host_memory = {}) {
    const DriverDecorator decorate = [this](std::unique_ptr<Driver> driver, Device device) {
      return std::make_unique<FaultInjectingDriver>(std::move(driver), device.is_cpu() ? cpu_faults_ : gpu_faults_);
    };
    runtime_ = make_runtime(backend.options, decorate, std::move(host_memory));
  }
  ~CheckedRuntime() {
    expect_nothing_live(*runtime_);
    runtime_.reset();
    expect_all_returned(*cpu_faults_);
    expect_all_returned(*gpu_faults_);
  }
  CheckedRuntime(const CheckedRuntime&) = delete;
  CheckedRuntime& operator=(const CheckedRuntime&) = delete;

  Runtime& operator*() { return *runtime_; }
  Runtime* operator->() { return runtime_.get(); }
  Faults& cpu_faults() { return *cpu_faults_; }
  Faults& gpu_faults() { return *gpu_faults_; }

 private:
  std::shared_ptr<Faults> cpu_faults_ = std::make_shared<Faults>(), gpu_faults_ = std::make_shared<Faults>();
  std::unique_ptr<Runtime> runtime_;
};

// A test with one runtime, on the backend named by the parameter.
class OnBackend : public ::testing::TestWithParam<Backend> {
 protected:
  CheckedRuntime runtime_{GetParam()};
};

// A test with one runtime on the simulated GPU.
class OnSim : public ::testing::Test {
 protected:
  CheckedRuntime runtime_{sim_backend()};
};

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) { return info.param.name; }

// The message of the Error that `call` throws; "" (and a failure) when it throws none of type E.
template <class E, class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error than expected: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace ferry::test
