// Values, errors, memory and the ordering checker of the simulated GPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/sim_fixture.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::int64_t kManyElements = 256;
constexpr Bytes kManySize{kManyElements * 4};

class SimValues : public SimFixture {
 protected:
  float* device_vector() { return static_cast<float*>(driver_->allocate(kManySize)); }
  float* pinned_vector(float value) {
    auto* const vector = static_cast<float*>(driver_->allocate_pinned(kManySize));
    std::fill_n(vector, kManyElements, value);
    return vector;
  }
  std::vector<float> read(const float* device) {
    std::vector<float> values(kManyElements, -1);
    download(values.data(), device, kManySize, kCompute, HostMemory::pageable);
    return values;
  }
};

TEST_F(SimValues, PinnedSourcesAreReadWhenTheCopyIsCarriedOut) {
  open({});
  float* const host = pinned_vector(1);
  float* const device = device_vector();
  upload(device, host, kManySize, kCompute);
  std::fill_n(host, kManyElements, 2.0f);  // a race: the copy has not been waited for
  EXPECT_THAT(read(device), Each(2));
}

TEST_F(SimValues, PinnedDestinationsAreWrittenWhenWaitedFor) {
  open({});
  float* const device = device_vector();
  upload(device, pinned_vector(3), kManySize, kCompute);
  float* const host = pinned_vector(-1);
  download(host, device, kManySize, kCompute);
  EXPECT_THAT(std::vector<float>(host, host + kManyElements), Each(-1));
  driver_->synchronize_stream(kCompute);
  EXPECT_THAT(std::vector<float>(host, host + kManyElements), Each(3));
}

TEST_F(SimValues, LargePageableSourcesAreReadBeforeTheCallReturns) {
  open({});
  const std::int64_t elements = 5 << 20;  // 20 MiB, more than is staged
  const Bytes size{elements * 4};
  auto* const device = static_cast<float*>(driver_->allocate(size));
  std::vector<float> host(static_cast<std::size_t>(elements), 1);
  upload(device, host.data(), size, kCompute, HostMemory::pageable);
  increment(device, device, elements, kCompute);
  std::fill(host.begin(), host.end(), 7.0f);
  upload(device, host.data(), size, kCompute, HostMemory::pageable);
  std::fill(host.begin(), host.end(), 0.0f);
  download(host.data(), device, size, kCompute, HostMemory::pageable);
  EXPECT_EQ(std::count(host.begin(), host.end(), 7.0f), elements);
}

TEST_F(SimValues, LongQueuesAreCarriedOutInPieces) {
  open({});
  float* const device = device_vector();
  upload(device, pinned_vector(0), kManySize, kCompute);
  for (int i = 0; i < 5000; ++i) increment(device, device, kManyElements, kCompute);
  EXPECT_THAT(read(device), Each(5000));
}

TEST_F(SimValues, HostArgumentsAreReadAtLaunch) {
  open({});
  std::vector<float> host(kManyElements, 4);
  float* const device = device_vector();
  increment(host.data(), device, kManyElements, kCompute);
  std::fill(host.begin(), host.end(), 0.0f);
  EXPECT_THAT(read(device), Each(5));
}

TEST_F(SimValues, HostResultsAreThereWhenTheLaunchReturns) {
  open({});
  float* const device = device_vector();
  upload(device, pinned_vector(4), kManySize, kCompute);
  std::vector<float> host(kManyElements, 0);
  increment(device, host.data(), kManyElements, kCompute);
  EXPECT_THAT(host, Each(5));
  EXPECT_EQ(now(), observer_.records.back().end + 1us) << "the copy ends, then the kernel, then the host goes on";
}

TEST_F(SimValues, TheFirstErrorIsThrownByTheNextWaitAndTheQueueGoesOn) {
  open({});
  float* const device = device_vector();
  upload(device, pinned_vector(1), kManySize, kCompute);
  fail(7, kCompute);
  fail(8, kCompute);
  increment(device, device, kManyElements, kCompute);
  try {
    driver_->synchronize();
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("index 7 is out of range"), HasSubstr("[gather at"), HasSubstr("sim_fixture.h:")));
  }
  driver_->synchronize();
  EXPECT_THAT(read(device), Each(2));
}

TEST_F(SimValues, FreeingUnknownMemoryIsAnErrorOfTheNextWait) {
  open({});
  int host = 0;
  driver_->free(&host, Bytes{4});
  EXPECT_THROW(driver_->synchronize(), DeviceError);
  driver_->synchronize();
}

TEST_F(SimValues, MemoryOutsideAllocationsIsRefused) {
  open({});
  float* const device = device_vector();
  const float* const host = pinned_vector(0);
  EXPECT_THROW(upload(device, host, kManySize + Bytes{4}, kCompute), DeviceError);
  EXPECT_THROW(upload(device + kManyElements, host, kManySize, kCompute), DeviceError);
  EXPECT_THROW(increment(device, device, kManyElements + 1, kCompute), DeviceError);
  driver_->free(device, kManySize);
  EXPECT_THROW(upload(device, host, kManySize, kCompute), DeviceError);
}

TEST_F(SimValues, UnknownHandlesAreRefused) {
  open({});
  EXPECT_THROW(driver_->synchronize_stream({3}), DeviceError);
  EXPECT_THROW(driver_->query_event({0}), DeviceError);
  const StreamId stream = driver_->create_stream("gone");
  driver_->destroy_stream(stream);
  EXPECT_THROW(driver_->synchronize_stream(stream), DeviceError);
}

TEST_F(SimValues, CapacityIsHardAndFreeBlocksCoalesce) {
  open({.capacity = kMiB});
  EXPECT_EQ(driver_->info().capacity, kMiB);
  const Bytes quarter{kMiB.count / 4};
  void* blocks[4];
  for (void*& block : blocks) block = driver_->allocate(quarter);
  EXPECT_EQ(driver_->allocate(Bytes{1}), nullptr);
  driver_->free(blocks[0], quarter);
  driver_->free(blocks[2], quarter);
  EXPECT_EQ(driver_->allocate(quarter * 2), nullptr) << "half is free, but not in one piece";
  driver_->free(blocks[1], quarter);
  void* const joined = driver_->allocate(quarter * 3);
  EXPECT_EQ(joined, blocks[0]);
  driver_->free(joined, quarter * 3);
  driver_->free(blocks[3], quarter);
  void* const whole = driver_->allocate(kMiB);
  EXPECT_NE(whole, nullptr);
  driver_->free(whole, kMiB);
}

TEST_F(SimValues, FreedMemoryDoesNotKeepItsContents) {
  open({});
  for (const Bytes size : {kManySize, kMiB * 8}) {
    auto* device = static_cast<float*>(driver_->allocate(size));
    upload(device, pinned_vector(1), kManySize, kCompute);
    driver_->free(device, size);
    device = static_cast<float*>(driver_->allocate(size));
    EXPECT_THAT(read(device), Each(testing::Ne(1.0f)));
    driver_->free(device, size);
  }
}

TEST_F(SimValues, TimingOnlyKeepsTimesAndCapacityButNoContents) {
  const auto run = [&](bool values) {
    clock_ = std::make_shared<VirtualClock>();
    open({.values = values});
    EXPECT_EQ(driver_->info().computes_values, values);
    float* const device = device_vector();
    float* const host = pinned_vector(1);
    upload(device, host, kManySize, kCompute);
    increment(device, device, kManyElements, kCompute);
    download(host, device, kManySize, kCompute);
    driver_->synchronize();
    EXPECT_THAT(std::vector<float>(host, host + kManyElements), Each(values ? 2 : 0));
    EXPECT_EQ(driver_->allocate(round_spec().memory), nullptr);
    return now();
  };
  EXPECT_EQ(run(false), run(true));
}

TEST_F(SimValues, TimingOnlyNeedsNoHostMemory) {
  DeviceSpec spec = round_spec();
  spec.memory = kGiB * 512;
  const auto driver = make_sim_driver({.spec = spec, .values = false, .clock = clock_});
  const Bytes size = kGiB * 400;
  void* const device = driver->allocate(size);
  void* const host = driver->allocate_pinned(size);
  ASSERT_NE(device, nullptr);
  ASSERT_NE(host, nullptr);
  driver->copy({host, device, size, CopyDirection::device_to_host, HostMemory::pinned, "download"}, kCompute);
  driver->copy({device, host, size, CopyDirection::host_to_device, HostMemory::pinned, "upload"}, kCompute);
  driver->synchronize();
  EXPECT_GT(now(), 80s);
  driver->free(device, size);
  driver->free_pinned(host, size);
}

TEST(SimOptions, AreChecked) {
  const auto clock = std::make_shared<VirtualClock>();
  EXPECT_THROW(make_sim_driver({.spec = round_spec()}), InvalidArgument);
  DeviceSpec none = round_spec();
  none.memory = Bytes{0};
  EXPECT_THROW(make_sim_driver({.spec = none, .clock = clock}), InvalidArgument);
  EXPECT_THROW(make_sim_driver({.spec = round_spec(), .capacity = Bytes{-1}, .clock = clock}), InvalidArgument);
}

}  // namespace
}  // namespace ferry
