#include "tests/support/runtime_fixture.h"

#include <ostream>

#include "src/memory/staging_ring.h"
#include "src/runtime/current.h"
#include "tests/support/fault_injecting_driver.h"

namespace ferry::test {

Backend::Backend(std::string its_name, RuntimeOptions its_options)
    : name(std::move(its_name)), options(std::move(its_options)) {}
Backend::Backend(const Backend& other) = default;
Backend& Backend::operator=(const Backend& other) = default;
Backend::~Backend() = default;

std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }

Backend cpu_backend() { return {"cpu", {.device = "cpu", .check_ordering = true}}; }

Backend sim_backend() {
  return {"sim", {.device = "sim:rtx2080ti", .device_memory = kMiB * 512, .check_ordering = true}};
}

Backend adversarial_backend(std::uint64_t seed) {
  Backend backend = sim_backend();
  backend.name = "sim_adversarial_" + std::to_string(seed);
  backend.options.order = {.adversarial = true, .seed = seed};
  return backend;
}

Backend synchronous_backend() {
  Backend backend = sim_backend();
  backend.name = "sim_synchronous";
  backend.options.copy_mode = CopyMode::synchronous;
  return backend;
}

Backend timing_only_backend() {
  Backend backend = sim_backend();
  backend.name = "sim_timing_only";
  backend.options.values = false;
  return backend;
}

std::vector<Backend> all_backends() {
  return {cpu_backend(), sim_backend(), adversarial_backend(7), synchronous_backend()};
}

BackendValues each_backend() { return ::testing::ValuesIn(all_backends()); }

void expect_nothing_live(Runtime& runtime) {
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

void expect_all_returned(const Faults& faults) {
  EXPECT_EQ(faults.live_device_bytes().count, 0);
  EXPECT_EQ(faults.live_pinned_bytes().count, 0);
  EXPECT_EQ(faults.live_events(), 0);
  EXPECT_EQ(faults.live_streams(), 0);
}

CheckedRuntime::CheckedRuntime(const Backend& backend, HostAllocatorOptions host_memory) {
  const DriverDecorator decorate = [this](std::unique_ptr<Driver> driver, Device device) {
    return std::make_unique<FaultInjectingDriver>(std::move(driver), device.is_cpu() ? cpu_faults_ : gpu_faults_);
  };
  runtime_ = make_runtime(backend.options, decorate, std::move(host_memory));
}

CheckedRuntime::~CheckedRuntime() {
  expect_nothing_live(*runtime_);
  runtime_.reset();
  expect_all_returned(*cpu_faults_);
  expect_all_returned(*gpu_faults_);
}

OnBackend::OnBackend() : runtime_(GetParam()) {}
OnBackend::~OnBackend() = default;
OnSim::OnSim() : runtime_(sim_backend()) {}
OnSim::~OnSim() = default;

std::string backend_name(const ::testing::TestParamInfo<Backend>& info) { return info.param.name; }

std::string message_of(const std::function<void()>& call, bool (*is_expected)(const std::exception&)) {
  try {
    call();
  } catch (const std::exception& error) {
    if (is_expected(error)) return error.what();
    ADD_FAILURE() << "another error than expected: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace ferry::test
