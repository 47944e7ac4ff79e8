// The suite of every driver on the CUDA driver, and what is CUDA's own: vendor errors, errors of queued work, and which
// functions of the runtime are called.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda/cuda_fixture.h"
#include "tests/support/driver_conformance.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// host_add_kernel in its stream's turn.
void queued_add_kernel(const KernelContext& context) {
  struct Call {
    TensorView in, out;
    Attributes attributes;
  };
  cudaLaunchHostFunc(
      static_cast<cudaStream_t>(context.stream),
      [](void* data) {
        const std::unique_ptr<Call> call(static_cast<Call*>(data));
        host_add_kernel(
            {.op = "add", .inputs = {&call->in, 1}, .outputs = {&call->out, 1}, .attributes = call->attributes});
      },
      new Call{context.in(0), context.out(), context.attributes});
}

INSTANTIATE_TEST_SUITE_P(Cuda, DriverConformance,
                         testing::Values(DriverCase{.name = "fake",
                                                    .make =
                                                        [] {
                                                          fake_cuda::reset();
                                                          return make_fake_cuda();
                                                        },
                                                    .add = queued_add_kernel}),
                         name_of_case);

// The error that `call` throws.
std::string device_error(const std::function<void()>& call, int code) {
  try {
    call();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no DeviceError";
  return "";
}

class CudaDriver : public OnFakeCuda {};

TEST_F(CudaDriver, SaysWhatItIs) {
  const auto driver = make_fake_cuda();
  EXPECT_EQ(driver->info().name, "cuda:0");
  EXPECT_FALSE(driver->info().simulated);
  EXPECT_EQ(driver->info().capacity, kMiB * 512);
  EXPECT_FALSE(driver->clock().is_virtual());
  EXPECT_GT(driver->info().link.in_bytes_per_second, 0) << "a budget needs it to tell what a copy costs";
  EXPECT_GT(driver->info().link.out_bytes_per_second, 0);
}

TEST_F(CudaDriver, CountsDevicesOrSaysWhyThereAreNone) {
  const auto plugin = Plugin::load(FERRY_CUDA_ON_HOST);
  fake_cuda::reset(3);
  std::string reason;
  EXPECT_EQ(plugin->device_count(&reason), 3);
  EXPECT_EQ(reason, "");
  fake_cuda::reset(0);
  EXPECT_EQ(plugin->device_count(&reason), 0);
  EXPECT_EQ(reason, "the NVIDIA driver finds no GPU");
  fake_cuda::fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  EXPECT_EQ(plugin->device_count(&reason), 0);
  EXPECT_EQ(reason, "no NVIDIA driver is installed");
}

TEST_F(CudaDriver, AVendorErrorHasItsCallNameCodeAndLine) {
  const auto driver = make_fake_cuda();
  fake_cuda::fail("cudaStreamSynchronize", 1, cudaErrorLaunchFailure);
  const std::string error =
      device_error([&] { driver->synchronize_stream(kCompute); }, static_cast<int>(cudaErrorLaunchFailure));
  EXPECT_THAT(error, AllOf(HasSubstr("cudaStreamSynchronize"), HasSubstr("cudaErrorLaunchFailure, 719"),
                           HasSubstr("at src/backends/cuda/cuda_driver.cpp:")));
}

TEST_F(CudaDriver, MemoryThatIsNotThereIsNullAndAnyOtherErrorIsThrown) {
  const auto driver = make_fake_cuda();
  fake_cuda::fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(driver->allocate(kKiB), nullptr);
  fake_cuda::fail("cudaMalloc", 1, cudaErrorIllegalAddress);
  device_error([&] { driver->allocate(kKiB); }, static_cast<int>(cudaErrorIllegalAddress));
  fake_cuda::fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(driver->allocate_pinned(kKiB), nullptr);
  void* const block = driver->allocate(kKiB);
  EXPECT_NE(block, nullptr) << "an error that was reported is forgotten";
  driver->free(block, kKiB);
}

TEST_F(CudaDriver, AnErrorOfFreeingIsThrownByTheNextWait) {
  const auto driver = make_fake_cuda();
  void* const block = driver->allocate(kKiB);
  fake_cuda::fail("cudaFree", 1, cudaErrorInvalidValue);
  driver->free(block, kKiB);
  EXPECT_THAT(device_error([&] { driver->synchronize(); }, static_cast<int>(cudaErrorInvalidValue)),
              HasSubstr("cudaFree"));
  driver->synchronize();
  driver->free(block, kKiB);
}

TEST_F(CudaDriver, FailedWorkIsReportedByEveryWaitThatFollows) {
  auto driver = make_fake_cuda();
  void* const device = driver->allocate(kKiB);
  void* const host = driver->allocate_pinned(kKiB);
  fake_cuda::fail_work(cudaErrorIllegalAddress);
  driver->copy({device, host, kKiB, CopyDirection::host_to_device, HostMemory::pinned, "upload"}, kCompute);
  for (int i = 0; i < 2; ++i) {
    device_error([&] { driver->synchronize_stream(kCompute); }, static_cast<int>(cudaErrorIllegalAddress));
  }
  fake_cuda::reset();
  driver->free(device, kKiB);
  driver->free_pinned(host, kKiB);
}

TEST_F(CudaDriver, HandlesThatDoNotExistAreRefused) {
  const auto driver = make_fake_cuda();
  constexpr int kCode = static_cast<int>(cudaErrorInvalidResourceHandle);
  EXPECT_THAT(device_error([&] { driver->synchronize_stream({7}); }, kCode), HasSubstr("stream 7"));
  EXPECT_THAT(device_error([&] { driver->query_event({3}); }, kCode), HasSubstr("event 3"));
  const EventId event = driver->create_event();
  driver->destroy_event(event);
  device_error([&] { driver->record_event(event, kCompute); }, kCode);
}

TEST_F(CudaDriver, EventsAreMadeOnce) {
  const auto driver = make_fake_cuda();
  const int before = fake_cuda::calls("cudaEventCreateWithFlags");
  for (int i = 0; i < 100; ++i) {
    const EventId event = driver->create_event();
    driver->record_event(event, kCompute);
    driver->wait_event(kCompute, event);
    driver->destroy_event(event);
  }
  EXPECT_EQ(fake_cuda::calls("cudaEventCreateWithFlags"), before + 1);
}

TEST_F(CudaDriver, AnEventMadeAnewWasNeverRecorded) {
  const auto driver = make_fake_cuda();
  void* const device = driver->allocate(kKiB);
  void* const host = driver->allocate_pinned(kKiB);
  const EventId first = driver->create_event();
  driver->copy({device, host, kKiB, CopyDirection::host_to_device, HostMemory::pinned, "upload"}, kCompute);
  driver->record_event(first, kCompute);
  driver->destroy_event(first);
  const EventId second = driver->create_event();
  EXPECT_TRUE(driver->query_event(second));
  driver->destroy_event(second);
  driver->free(device, kKiB);
  driver->free_pinned(host, kKiB);
}

TEST_F(CudaDriver, PageableSourcesMayBeWrittenWhenACopyReturns) {
  const auto driver = make_fake_cuda();
  auto* const device = static_cast<float*>(driver->allocate(kKiB));
  // Page-locked, though the caller calls it pageable: the runtime does not stage it.
  auto* const host = static_cast<float*>(driver->allocate_pinned(kKiB));
  host[0] = 1;
  driver->copy({device, host, kKiB, CopyDirection::host_to_device, HostMemory::pageable, "upload"}, kCompute);
  host[0] = 2;
  float result = 0;
  driver->copy({&result, device, Bytes{4}, CopyDirection::device_to_host, HostMemory::pageable, "download"}, kCompute);
  EXPECT_EQ(result, 1);
  driver->free(device, kKiB);
  driver->free_pinned(host, kKiB);
}

class Collector final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

TEST_F(CudaDriver, WorkIsTimedByEventsOnTheHostsClock) {
  const auto driver = make_fake_cuda();
  void* const device = driver->allocate(kMiB);
  void* const host = driver->allocate_pinned(kMiB);
  const StreamId copies = driver->create_stream("copies");
  Collector collector;
  driver->set_work_observer(&collector);
  const Nanoseconds begin = driver->clock().now();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    driver->copy({device, host, kMiB, CopyDirection::host_to_device, HostMemory::pinned, "upload", i}, copies);
  }
  driver->copy({host, device, kMiB, CopyDirection::device_to_host, HostMemory::pinned, "download", 4}, copies);
  EXPECT_TRUE(collector.records.empty()) << "nothing has run yet";
  driver->flush_work_records();
  const Nanoseconds end = driver->clock().now();
  driver->set_work_observer(nullptr);
  ASSERT_EQ(collector.records.size(), 4u);
  Nanoseconds last = begin - Nanoseconds(1'000'000);
  for (const trace::WorkRecord& record : collector.records) {
    EXPECT_GE(record.begin, last);
    EXPECT_LE(record.begin, record.end);
    EXPECT_LE(record.end, end + Nanoseconds(1'000'000));
    EXPECT_EQ(record.stream, copies.value);
    last = record.begin;
  }
  EXPECT_EQ(collector.records[0].engine, trace::Engine::host_to_device);
  EXPECT_EQ(collector.records[3].engine, trace::Engine::device_to_host);
  driver->destroy_stream(copies);
  driver->free(device, kMiB);
  driver->free_pinned(host, kMiB);
}

}  // namespace
}  // namespace ferry
