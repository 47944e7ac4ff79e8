// Virtual times of overlapping work, worked out by hand from the rules: work starts when the host has enqueued it and
// its stream, its engine and awaited events are done.
#include "tests/sim/sim_fixture.h"

namespace ferry {
namespace {

using namespace std::chrono_literals;

class SimTime : public SimFixture {
 protected:
  void SetUp() override {
    open({});
    upload_ = driver_->create_stream("h2d");
    download_ = driver_->create_stream("d2h");
    device_ = driver_->allocate(kMiB);
    host_ = driver_->allocate_pinned(kMiB);
  }
  void TearDown() override {
    driver_->free(device_, kMiB);
    driver_->free_pinned(host_, kMiB);
  }
  void expect_work(std::size_t index, Nanoseconds begin, Nanoseconds end) const {
    ASSERT_LT(index, observer_.records.size());
    EXPECT_EQ(observer_.records[index].begin, begin) << "work " << index;
    EXPECT_EQ(observer_.records[index].end, end) << "work " << index;
  }

  StreamId upload_, download_;
  void* device_ = nullptr;
  void* host_ = nullptr;
  const Bytes ten_us_{70'000};  // 3 us latency + 7 us
};

TEST_F(SimTime, LaunchesReturnAfterTheLaunchCostAndQueueUp) {
  launch(kCompute, 10us);
  EXPECT_EQ(now(), 2us);
  launch(kCompute, 10us);
  EXPECT_EQ(now(), 4us);
  expect_work(0, 2us, 12us);
  expect_work(1, 12us, 22us);
  driver_->synchronize();
  EXPECT_EQ(now(), 22us);
}

TEST_F(SimTime, PinnedCopiesReturnAtOnceAndOverlapWithKernels) {
  launch(kCompute, 10us);                        // 2 to 12 on compute
  upload(device_, host_, ten_us_, upload_);      // 2 to 12 on the upload engine
  download(host_, device_, ten_us_, download_);  // 2 to 12 on the download engine
  EXPECT_EQ(now(), 2us);
  expect_work(0, 2us, 12us);
  expect_work(1, 2us, 12us);
  expect_work(2, 2us, 12us);
  EXPECT_EQ(observer_.records[0].engine, trace::Engine::compute);
  EXPECT_EQ(observer_.records[1].engine, trace::Engine::host_to_device);
  EXPECT_EQ(observer_.records[2].engine, trace::Engine::device_to_host);
}

TEST_F(SimTime, TwoStreamsShareAnEngine) {
  const StreamId second = driver_->create_stream("h2d 2");
  upload(device_, host_, ten_us_, upload_);
  upload(device_, host_, ten_us_, second);
  expect_work(0, 0us, 10us);
  expect_work(1, 10us, 20us);
  driver_->synchronize_stream(upload_);
  EXPECT_EQ(now(), 10us);
  driver_->synchronize_stream(second);
  EXPECT_EQ(now(), 20us);
}

TEST_F(SimTime, CopiesInsideTheDeviceRunOnTheComputeEngine) {
  launch(kCompute, 10us);
  driver_->copy({device_, static_cast<std::byte*>(device_) + 500'000, Bytes{100'000}, CopyDirection::device_to_device,
                 HostMemory::pinned, "inside", 1},
                upload_);
  expect_work(1, 12us, 15us);  // 1 us fixed, 2 × 100,000 bytes at 100 GB/s
  EXPECT_EQ(observer_.records[1].engine, trace::Engine::compute);
}

TEST_F(SimTime, PageableUploadBlocksTheHostForStagingOnly) {
  std::vector<std::byte> pageable(70'000);
  upload(device_, pageable.data(), ten_us_, upload_, HostMemory::pageable);
  EXPECT_EQ(now(), 7us);  // staging runs as fast as the link here, since pageable copies reach half of its bandwidth
  expect_work(0, 7us, 17us);
}

TEST_F(SimTime, PageableDownloadBlocksTheHostUntilItHasEnded) {
  std::vector<std::byte> pageable(70'000);
  launch(kCompute, 10us);
  download(pageable.data(), device_, ten_us_, kCompute, HostMemory::pageable);
  expect_work(1, 12us, 29us);  // 3 us latency + 14 us at half bandwidth, after the kernel before it
  EXPECT_EQ(now(), 29us);
}

TEST_F(SimTime, WaitedEventsDelayAStream) {
  const EventId uploaded = driver_->create_event();
  upload(device_, host_, ten_us_, upload_);  // 0 to 10
  driver_->record_event(uploaded, upload_);
  driver_->wait_event(kCompute, uploaded);
  launch(kCompute, 5us);  // enqueued at 2
  expect_work(1, 10us, 15us);
  driver_->synchronize_event(uploaded);
  EXPECT_EQ(now(), 10us);
}

TEST_F(SimTime, DoubleBufferingHidesUploads) {
  // Three batches: each upload takes 10 us, each kernel 15 us and waits for its upload.
  const EventId uploaded = driver_->create_event();
  for (int batch = 0; batch < 3; ++batch) {
    upload(device_, host_, ten_us_, upload_);
    driver_->record_event(uploaded, upload_);
    driver_->wait_event(kCompute, uploaded);
    launch(kCompute, 15us);
  }
  driver_->synchronize();
  expect_work(0, 0us, 10us);
  expect_work(1, 10us, 25us);
  expect_work(2, 10us, 20us);
  expect_work(3, 25us, 40us);
  expect_work(4, 20us, 30us);
  expect_work(5, 40us, 55us);
  EXPECT_EQ(now(), 55us);
}

TEST_F(SimTime, AnEventHoldsTheTimeOfItsLastRecord) {
  const EventId event = driver_->create_event();
  EXPECT_TRUE(driver_->query_event(event)) << "never recorded: complete";
  upload(device_, host_, ten_us_, upload_);
  driver_->record_event(event, upload_);
  EXPECT_FALSE(driver_->query_event(event));
  driver_->wait_event(kCompute, event);
  upload(device_, host_, ten_us_, upload_);
  driver_->record_event(event, upload_);
  launch(kCompute, 5us);
  expect_work(2, 10us, 15us);  // waits for the first record only
  driver_->synchronize_event(event);
  EXPECT_EQ(now(), 20us);
  EXPECT_TRUE(driver_->query_event(event));
}

TEST_F(SimTime, FreeingWaitsForTheDevice) {
  void* const block = driver_->allocate(kMiB);
  launch(kCompute, 10us);
  driver_->free(block, kMiB);
  EXPECT_EQ(now(), 12us);
}

TEST_F(SimTime, WorkWithoutCorrelationIsNotReported) {
  launch(kCompute, 10us, 0);
  launch(kCompute, 10us, 7);
  driver_->set_work_observer(nullptr);
  launch(kCompute, 10us, 8);
  ASSERT_EQ(observer_.records.size(), 1u);
  EXPECT_EQ(observer_.records[0].correlation, 7u);
  EXPECT_EQ(observer_.records[0].kind, trace::WorkKind::kernel);
  EXPECT_EQ(observer_.records[0].stream, 0);
  expect_work(0, 12us, 22us);
}

TEST_F(SimTime, AllocationTakesHostTime) {
  DeviceSpec spec = round_spec();
  spec.allocation_cost = 40us;
  const auto driver = make_sim_driver({.spec = spec, .clock = clock_});
  void* const block = driver->allocate(kMiB);
  EXPECT_EQ(now(), 40us);
  driver->free(block, kMiB);
}

}  // namespace
}  // namespace ferry
