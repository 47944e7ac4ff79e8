// A training step in which the n-th allocation fails, for every n: a clean error, nothing leaked, and the step can be
// taken again with the result of a run that nothing disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/training_step.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using Values = std::vector<std::vector<float>>;

// Fails the n-th allocation from now on and all later ones, until it is cleared.
class Refusals {
 public:
  virtual ~Refusals() = default;
  virtual void fail(std::int64_t n) = 0;
  virtual void clear() = 0;
};

class DriverRefusals : public Refusals {
 public:
  DriverRefusals(Faults& faults, DriverCall call) : faults_(faults), call_(call) {}
  void fail(std::int64_t n) override { faults_.fail(call_, n, Lasting::until_cleared); }
  void clear() override { faults_.clear(); }

 private:
  Faults& faults_;
  DriverCall call_;
};

class HostRefusals : public Refusals {
 public:
  void fail(std::int64_t n) override { remaining_ = n; }
  void clear() override { remaining_ = 0; }
  bool refuse() { return remaining_ > 0 && (remaining_ == 1 || --remaining_ == 0); }

 private:
  std::int64_t remaining_ = 0;  // 1: this call and all later ones fail; 0: none do
};

enum class Victim { device, pinned, host };

std::string name_of(Victim victim) { return std::array{"device", "pinned", "host"}[static_cast<std::size_t>(victim)]; }

struct Arrangement {
  std::unique_ptr<Refusals> refusals;
  std::unique_ptr<CheckedRuntime> runtime;
};

Arrangement arrange(Victim victim, const Backend& backend) {
  if (victim == Victim::host) {
    auto refusals = std::make_unique<HostRefusals>();
    HostRefusals* const raw = refusals.get();
    auto runtime = std::make_unique<CheckedRuntime>(
        backend, HostAllocatorOptions{.refuse = [raw](Bytes) { return raw->refuse(); }});
    return {std::move(refusals), std::move(runtime)};
  }
  auto runtime = std::make_unique<CheckedRuntime>(backend);
  const DriverCall call = victim == Victim::pinned ? DriverCall::pinned_allocation : DriverCall::device_allocation;
  return {std::make_unique<DriverRefusals>(runtime->gpu_faults(), call), std::move(runtime)};
}

// Memory that is cached would hide failures of the driver.
void drop_caches(Runtime& runtime) {
  runtime.synchronize();
  for (const DeviceDescription& device : runtime.devices()) runtime.empty_cache(device.device);
}

class Faulty : public ::testing::TestWithParam<std::tuple<Victim, CopyMode>> {
 protected:
  static Victim victim() { return std::get<0>(GetParam()); }
  static Backend backend() {
    return std::get<1>(GetParam()) == CopyMode::staged ? sim_backend() : synchronous_backend();
  }
  // Blocks of 10 MiB and more are segments of their own, so that each activation of many channels is a call of the
  // driver.
  static std::int64_t channels() { return victim() == Victim::device ? 7500 : 6; }

  // Parameters after `warm` undisturbed steps and one more, before which the n-th allocation failed; false when none
  // did.
  bool disturbed(int warm, std::int64_t n, Values& parameters) {
    Arrangement arranged = arrange(victim(), backend());
    Runtime& runtime = **arranged.runtime;
    bool failed = false;
    {
      TrainingStep model(channels());
      for (int i = 0; i < warm; ++i) model.step(i);
      drop_caches(runtime);
      const Values before = model.parameter_values();
      const Bytes live = runtime.live_bytes();
      arranged.refusals->fail(n);
      try {
        model.step(warm);
      } catch (const OutOfMemory& error) {
        failed = true;
        EXPECT_GT(error.figures().requested, Bytes{});
        EXPECT_THAT(error.what(), ::testing::HasSubstr(".h:"));  // the step's line
      }
      arranged.refusals->clear();
      if (failed) {
        model.zero_grad();
        if (warm > 0) {
          EXPECT_EQ(runtime.live_bytes(), live) << "after failure " << n;
        }
        EXPECT_EQ(model.parameter_values(), before) << "after failure " << n;
        model.step(warm);
      }
      parameters = model.parameter_values();
    }
    return failed;
  }
};

TEST_P(Faulty, EveryFailureIsCleanAndTheStepCanBeRepeated) {
  for (const int warm : {0, 1}) {
    Values expected;
    {
      CheckedRuntime runtime(backend());
      TrainingStep model(channels());
      for (int i = 0; i <= warm; ++i) model.step(i);
      expected = model.parameter_values();
    }
    std::int64_t n = 1;
    for (bool failed = true; failed; ++n) {
      SCOPED_TRACE("failure " + std::to_string(n) + " after " + std::to_string(warm) + " steps");
      ASSERT_LT(n, 2000);
      Values parameters;
      failed = disturbed(warm, n, parameters);
      ASSERT_EQ(parameters, expected);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(n, 2) << "nothing failed";
    RecordProperty("failures_" + std::to_string(warm), static_cast<int>(n - 2));
  }
}

// Synchronous copies need no pinned memory.
INSTANTIATE_TEST_SUITE_P(All, Faulty,
                         ::testing::Values(std::tuple(Victim::device, CopyMode::staged),
                                           std::tuple(Victim::device, CopyMode::synchronous),
                                           std::tuple(Victim::pinned, CopyMode::staged),
                                           std::tuple(Victim::host, CopyMode::staged),
                                           std::tuple(Victim::host, CopyMode::synchronous)),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) == CopyMode::staged ? "_staged" : "_synchronous");
                         });

// Calls other than allocations fail with the vendor's code; what they leave is released.
TEST(FaultyDriver, EveryFailingCallIsADeviceErrorAndNothingLeaks) {
  for (std::int64_t n = 1;; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    ASSERT_LT(n, 3000);
    bool failed = false;
    {
      CheckedRuntime runtime(sim_backend());
      Faults& faults = runtime.gpu_faults();
      TrainingStep model;
      faults.fail_any(n);
      try {
        model.step(0);
      } catch (const Error&) {
      }
      failed = faults.failures() > 0;
      faults.clear();
    }
    if (!failed || ::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace ferry::test
