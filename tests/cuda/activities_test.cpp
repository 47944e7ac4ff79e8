// Times and copies as CUPTI sees them: of the driver, and in the profiler's report.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include <ferry/device_guard.h>
#include <ferry/ops.h>
#include <ferry/profiler.h>
#include "src/device/activity_source.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Collector final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

ActivitySource& source_of(Driver& driver) { return dynamic_cast<ActivitySource&>(driver); }

class CudaActivities : public OnFakeCuda {
 protected:
  // A driver that was asked to use CUPTI, with memory on both sides.
  struct Machine {
    std::unique_ptr<Driver> driver = make_fake_cuda();
    void* device = driver->allocate(kMiB);
    void* host = driver->allocate_pinned(kMiB);
    Collector collector;

    Machine() {
      source_of(*driver).use_activities(true);
      driver->set_work_observer(&collector);
    }
    ~Machine() {
      driver->set_work_observer(nullptr);
      driver->free(device, kMiB);
      driver->free_pinned(host, kMiB);
    }
    void upload(std::uint64_t correlation, Bytes size = kMiB) {
      driver->copy({device, host, size, CopyDirection::host_to_device, HostMemory::pinned, "upload", correlation},
                   kCompute);
    }
    void download(std::uint64_t correlation) {
      driver->copy({host, device, kMiB, CopyDirection::device_to_host, HostMemory::pinned, "download", correlation},
                   kCompute);
    }
    CopyActivity copies() {
      driver->flush_work_records();
      return source_of(*driver).copy_activity().value_or(CopyActivity{});
    }
  };
};

TEST_F(CudaActivities, GiveTheTimesOfWorkOnTheHostsClock) {
  Machine machine;
  const int events = fake_cuda::calls("cudaEventRecord");
  const Nanoseconds begin = machine.driver->clock().now();
  for (std::uint64_t i = 1; i <= 3; ++i) machine.upload(i);
  machine.download(4);
  EXPECT_THAT(machine.collector.records, IsEmpty());
  machine.driver->flush_work_records();
  const Nanoseconds end = machine.driver->clock().now();
  EXPECT_EQ(fake_cuda::calls("cudaEventRecord"), events) << "no events are needed";
  ASSERT_EQ(machine.collector.records.size(), 4u);
  Nanoseconds last = begin;
  for (std::size_t i = 0; i < 4; ++i) {
    const trace::WorkRecord& record = machine.collector.records[i];
    EXPECT_EQ(record.correlation, i + 1);
    EXPECT_EQ(record.kind, trace::WorkKind::copy);
    EXPECT_GE(record.begin, last);
    EXPECT_LE(record.begin, record.end);
    last = record.end;
  }
  EXPECT_LE(last, end);
  EXPECT_EQ(machine.collector.records[3].engine, trace::Engine::device_to_host);
}

TEST_F(CudaActivities, TellKindsOfMemoryAndCopiesThatNobodyRecorded) {
  Machine machine;
  machine.upload(1);
  machine.upload(2, kKiB);
  machine.download(3);
  machine.upload(0);
  std::vector<std::byte> pageable(static_cast<std::size_t>(kKiB.count));
  machine.driver->copy(
      {pageable.data(), machine.device, kKiB, CopyDirection::device_to_host, HostMemory::pageable, "download", 4},
      kCompute);
  const CopyActivity copies = machine.copies();
  EXPECT_EQ(copies.library, "CUPTI");
  EXPECT_EQ(copies.others, 1);
  ASSERT_EQ(copies.kinds.size(), 3u);
  EXPECT_EQ(copies.kinds[0].from, trace::Memory::pinned);
  EXPECT_EQ(copies.kinds[0].to, trace::Memory::device);
  EXPECT_EQ(copies.kinds[0].calls, 2);
  EXPECT_EQ(copies.kinds[0].size, kMiB + kKiB);
  EXPECT_EQ(copies.kinds[1].to, trace::Memory::pinned);
  EXPECT_EQ(copies.kinds[2].to, trace::Memory::pageable);
}

TEST_F(CudaActivities, OfOneObserverAreNotTheNexts) {
  Machine machine;
  machine.upload(1);
  machine.driver->set_work_observer(nullptr);
  EXPECT_EQ(machine.collector.records.size(), 1u);
  Collector next;
  machine.driver->set_work_observer(&next);
  EXPECT_THAT(machine.copies().kinds, IsEmpty());
  machine.upload(7);
  EXPECT_EQ(machine.copies().kinds.size(), 1u);
  ASSERT_EQ(next.records.size(), 1u);
  EXPECT_EQ(next.records[0].correlation, 7u);
  machine.driver->set_work_observer(nullptr);
}

TEST_F(CudaActivities, OfWorkThatFailedToBeEnqueuedAreNone) {
  Machine machine;
  fake_cuda::fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
  EXPECT_THROW(machine.upload(1), DeviceError);
  machine.upload(2);
  machine.driver->flush_work_records();
  ASSERT_EQ(machine.collector.records.size(), 1u);
  EXPECT_EQ(machine.collector.records[0].correlation, 2u);
}

TEST_F(CudaActivities, EventsServeWhereCuptiRefusesOrSeesNothing) {
  fake_cuda::fail("cuptiActivityEnable", 3, cudaErrorNotSupported);
  for (const bool blind : {false, true}) {
    if (blind) fake_cuda::blind_cupti();
    Machine machine;
    machine.upload(1);
    machine.driver->flush_work_records();
    EXPECT_EQ(machine.collector.records.size(), 1u);
    EXPECT_FALSE(source_of(*machine.driver).copy_activity().has_value());
  }
}

TEST_F(CudaActivities, OfTwoDriversAtOnceGoToTheirOwn) {
  fake_cuda::reset(2);
  Machine first;
  const auto second = make_fake_cuda(1);
  Collector collector;
  source_of(*second).use_activities(true);
  second->set_work_observer(&collector);
  void* const device = second->allocate(kKiB);
  first.upload(1);
  second->copy({device, first.host, kKiB, CopyDirection::host_to_device, HostMemory::pinned, "upload", 2}, kCompute);
  second->synchronize();
  first.driver->flush_work_records();
  second->flush_work_records();
  ASSERT_EQ(first.collector.records.size(), 1u);
  EXPECT_EQ(first.collector.records[0].correlation, 1u);
  ASSERT_EQ(collector.records.size(), 1u);
  EXPECT_EQ(collector.records[0].correlation, 2u);
  second->set_work_observer(nullptr);
  second->free(device, kKiB);
}

// --- in the report ---

struct Reports {
  std::string text;
  nlohmann::json json;
};

Reports reports_of_a_small_program() {
  Runtime runtime(
      {.device = std::string("plugin:") + FERRY_CUDA_ON_HOST});  // not decorated, which is no ActivitySource
  Profiler profiler;
  {
    const Tensor a = full({16, 16}, 2);
    Tensor b;
    {
      const DeviceGuard<cpu> guard;
      b = a + 1;
    }
    const Tensor c = matmul(b, a);
    EXPECT_EQ(c.to_vector<float>().front(), 96);
  }
  return {profiler.report(), nlohmann::json::parse(profiler.report_json())};
}

TEST_F(CudaActivities, TheReportSaysThatEveryRecordedCopyWasSeen) {
  const Reports reports = reports_of_a_small_program();
  EXPECT_THAT(reports.text, HasSubstr("CUPTI saw all 3 recorded copies: "));
  const nlohmann::json& check = reports.json["memcpy"]["check"];
  EXPECT_EQ(check["recorded"], 3);
  EXPECT_EQ(check["seen"], 3);
  EXPECT_EQ(check["others"], 0);
  EXPECT_EQ(check["holds"], true);
  EXPECT_GT(reports.json["memcpy"]["total_ns"], 0);
  bool has_product = false;
  for (const nlohmann::json& event : reports.json["events"]) {
    if (event["name"] != "matmul") continue;
    has_product = true;
    EXPECT_GT(event["gpu_ns"], 0);
  }
  EXPECT_TRUE(has_product);
}

TEST_F(CudaActivities, TheReportSaysNothingOfCuptiWhereItIsNotUsed) {
  ::setenv("FERRY_CUPTI", "0", 1);
  const Reports reports = reports_of_a_small_program();
  ::unsetenv("FERRY_CUPTI");
  EXPECT_THAT(reports.text, Not(HasSubstr("CUPTI")));
  EXPECT_FALSE(reports.json["memcpy"].contains("check"));
  EXPECT_GT(reports.json["memcpy"]["total_ns"], 0);
}

}  // namespace
}  // namespace ferry::test
