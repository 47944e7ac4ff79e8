// Runtimes for tests: on the CPU and on simulated GPUs of several kinds, with accesses checked for order, and a check
// at the end that nothing is left behind.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ferry/error.h>
#include <ferry/runtime.h>
#include "src/runtime/current.h"
#include "tests/support/fault_injecting_driver.h"

namespace ferry::test {

// Out of line, for what is copied and freed in every test file would be compiled in each.
struct Backend {
  Backend(std::string name, RuntimeOptions options);
  Backend(const Backend& other);
  Backend& operator=(const Backend& other);
  ~Backend();

  std::string name;
  RuntimeOptions options;
};

std::ostream& operator<<(std::ostream& out, const Backend& backend);

Backend cpu_backend();
Backend sim_backend();
// Queued work is carried out in a legal order chosen by the seed.
Backend adversarial_backend(std::uint64_t seed);
Backend synchronous_backend();
Backend timing_only_backend();
std::vector<Backend> all_backends();

// Those of all_backends() as values of a parameterised suite.
using BackendValues = decltype(::testing::ValuesIn(std::declval<std::vector<Backend>>()));
BackendValues each_backend();

// Adds a failure to the running test for every byte that tensors of the runtime still hold. The staging ring keeps its
// slabs.
void expect_nothing_live(Runtime& runtime);

// Adds a failure for everything that the device's driver still holds.
void expect_all_returned(const Faults& faults);

// A runtime that is current in its scope and leaves nothing behind. Faults can be injected into its drivers.
class CheckedRuntime {
 public:
  explicit CheckedRuntime(const Backend& backend, HostAllocatorOptions host_memory = {});
  ~CheckedRuntime();
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
  OnBackend();
  ~OnBackend() override;

  CheckedRuntime runtime_;
};

// A test with one runtime on the simulated GPU.
class OnSim : public ::testing::Test {
 protected:
  OnSim();
  ~OnSim() override;

  CheckedRuntime runtime_;
};

std::string backend_name(const ::testing::TestParamInfo<Backend>& info);

// Runs `call`; the message of what it throws where `is_expected` says that it is the right kind of error, else "" and a
// failure.
std::string message_of(const std::function<void()>& call, bool (*is_expected)(const std::exception&));

// The message of the Error that `call` throws; "" (and a failure) when it throws none of type E.
template <class E>
std::string message_of(const std::function<void()>& call) {
  return message_of(call, [](const std::exception& error) { return dynamic_cast<const E*>(&error) != nullptr; });
}

}  // namespace ferry::test
