#include "tests/support/fault_injecting_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/backends/sim/sim_driver.h"
#include "tests/sim/sim_fixture.h"

namespace ferry {
namespace {

using testing::HasSubstr;

class FaultInjection : public ::testing::Test {
 protected:
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  FaultInjectingDriver driver_{make_sim_driver({.spec = round_spec(), .clock = std::make_shared<VirtualClock>()}),
                               faults_};
};

TEST_F(FaultInjection, TheChosenAllocationReturnsNullOnce) {
  faults_->fail(DriverCall::device_allocation, 2);
  void* const first = driver_.allocate(kMiB);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(driver_.allocate(kMiB), nullptr);
  void* const third = driver_.allocate(kMiB);
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(faults_->live_device_bytes(), kMiB * 2);
  EXPECT_EQ(faults_->calls(DriverCall::device_allocation), 3);
  EXPECT_EQ(faults_->failures(), 1);
  driver_.free(first, kMiB);
  driver_.free(third, kMiB);
  EXPECT_EQ(faults_->live_device_bytes(), Bytes{0});
}

TEST_F(FaultInjection, LastingFailuresStayUntilCleared) {
  faults_->fail(DriverCall::pinned_allocation, 1, Lasting::until_cleared);
  EXPECT_EQ(driver_.allocate_pinned(kMiB), nullptr);
  EXPECT_EQ(driver_.allocate_pinned(kMiB), nullptr);
  faults_->clear();
  void* const block = driver_.allocate_pinned(kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(faults_->live_pinned_bytes(), kMiB);
  driver_.free_pinned(block, kMiB);
  EXPECT_EQ(faults_->live_pinned_bytes(), Bytes{0});
}

TEST_F(FaultInjection, TheNthCallOfAnyKindFails) {
  faults_->fail_any(3);
  const StreamId stream = driver_.create_stream("s");
  const EventId event = driver_.create_event();
  try {
    driver_.record_event(event, stream);
    FAIL() << "expected DeviceError";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), Faults::kCode);
    EXPECT_THAT(error.what(), HasSubstr("record_event"));
  }
  driver_.record_event(event, stream);
  driver_.synchronize();
  EXPECT_EQ(faults_->calls(), 5);
  EXPECT_EQ(faults_->live_events(), 1);
  EXPECT_EQ(faults_->live_streams(), 1);
  driver_.destroy_event(event);
  driver_.destroy_stream(stream);
  EXPECT_EQ(faults_->live_events(), 0);
  EXPECT_EQ(faults_->live_streams(), 0);
}

}  // namespace
}  // namespace ferry
