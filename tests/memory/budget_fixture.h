// An allocator under a budget, on a driver whose calls are counted and can be made to fail.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "src/memory/caching_allocator.h"
#include "tests/memory/fake_driver.h"
#include "tests/support/fault_injecting_driver.h"

namespace ferry::testing {

class BudgetFixture : public ::testing::Test {
 protected:
  explicit BudgetFixture(Bytes capacity = kGiB) : fake_(new FakeDriver(capacity)) {}
  ~BudgetFixture() override { EXPECT_EQ(faults_->live_events(), 0); }

  // Calls that a budget does without.
  std::int64_t forbidden_calls() const {
    return faults_->calls(DriverCall::device_allocation) + faults_->calls(DriverCall::synchronize);
  }

  FakeDriver* fake_;  // owned by driver_
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  FaultInjectingDriver driver_{std::unique_ptr<Driver>(fake_), faults_};
  StreamId compute_{0}, copies_{driver_.create_stream("copies")}, third_{driver_.create_stream("third")};
};

}  // namespace ferry::testing
