// CUPTI's records joined to pieces of work, from records made by hand.
#include "src/backends/cuda/activity_reader.h"

#include <gtest/gtest.h>

namespace ferry::cuda_backend {
namespace {

template <class Record>
const CUpti_Activity& base(const Record& record) {
  return reinterpret_cast<const CUpti_Activity&>(record);
}

CUpti_ActivityKernel9 kernel(std::uint32_t call, std::uint64_t begin, std::uint64_t end, std::uint32_t device = 0) {
  CUpti_ActivityKernel9 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.correlationId = call;
  record.start = begin;
  record.end = end;
  record.deviceId = device;
  return record;
}

CUpti_ActivityMemcpy5 copy(std::uint32_t call, CUpti_ActivityMemoryKind from, CUpti_ActivityMemoryKind to) {
  CUpti_ActivityMemcpy5 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.correlationId = call;
  record.srcKind = static_cast<std::uint8_t>(from);
  record.dstKind = static_cast<std::uint8_t>(to);
  record.bytes = 4096;
  record.start = 10;
  record.end = 20;
  return record;
}

CUpti_ActivityExternalCorrelation correlation(std::uint32_t call, std::uint64_t id) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  record.correlationId = call;
  record.externalId = id;
  return record;
}

TEST(ActivityReader, KernelsBelongToThePieceOfWorkOfTheirCall) {
  ActivityReader reader;
  reader.read(base(correlation(1, 70)));
  reader.read(base(kernel(1, 100, 250, 3)));
  const std::vector<Activity> activities = reader.take();
  ASSERT_EQ(activities.size(), 1u);
  EXPECT_EQ(activities[0].id, 70u);
  EXPECT_EQ(activities[0].device, 3u);
  EXPECT_EQ(activities[0].kind, trace::WorkKind::kernel);
  EXPECT_EQ(activities[0].begin, Nanoseconds(100));
  EXPECT_EQ(activities[0].end, Nanoseconds(250));
  EXPECT_TRUE(reader.take().empty()) << "they are handed over once";
}

TEST(ActivityReader, TheCallMayBecomeKnownAfterItsKernels) {
  ActivityReader reader;
  reader.read(base(kernel(1, 100, 250)));
  reader.read(base(kernel(2, 300, 350)));
  EXPECT_TRUE(reader.take().empty());
  reader.read(base(correlation(2, 71)));
  reader.read(base(correlation(1, 70)));
  const std::vector<Activity> activities = reader.take();
  ASSERT_EQ(activities.size(), 2u);
  EXPECT_EQ(activities[0].id, 71u);
  EXPECT_EQ(activities[0].begin, Nanoseconds(300));
  EXPECT_EQ(activities[1].id, 70u);
}

TEST(ActivityReader, SeveralCallsBelongToOnePieceOfWork) {
  ActivityReader reader;
  reader.read(base(correlation(1, 70)));
  reader.read(base(correlation(2, 70)));
  reader.read(base(kernel(2, 300, 350)));
  reader.read(base(kernel(1, 100, 250)));
  const std::vector<Activity> activities = reader.take();
  ASSERT_EQ(activities.size(), 2u);
  EXPECT_EQ(activities[0].id, 70u);
  EXPECT_EQ(activities[1].id, 70u);
}

TEST(ActivityReader, CopiesHaveTheirKindsOfMemoryAndSize) {
  ActivityReader reader;
  for (const std::uint32_t call : {1, 2, 3, 4}) reader.read(base(correlation(call, 70 + call)));
  reader.read(base(copy(1, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)));
  reader.read(base(copy(2, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)));
  reader.read(base(copy(3, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_PINNED)));
  reader.read(base(copy(4, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC)));
  const std::vector<Activity> copies = reader.take();
  ASSERT_EQ(copies.size(), 4u);
  EXPECT_EQ(copies[0].from, trace::Memory::pageable);
  EXPECT_EQ(copies[0].to, trace::Memory::device);
  EXPECT_EQ(copies[0].size, Bytes{4096});
  EXPECT_FALSE(copies[0].within_device);
  EXPECT_EQ(copies[1].from, trace::Memory::pinned);
  EXPECT_EQ(copies[2].from, trace::Memory::device);
  EXPECT_EQ(copies[2].to, trace::Memory::pinned);
  EXPECT_TRUE(copies[3].within_device);
}

TEST(ActivityReader, CopiesBetweenTwoDevicesAreNotWithinOne) {
  CUpti_ActivityMemcpyPtoP4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  record.correlationId = 1;
  record.srcKind = record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.srcDeviceId = 0;
  record.dstDeviceId = 1;
  ActivityReader reader;
  reader.read(base(correlation(1, 70)));
  reader.read(base(record));
  const std::vector<Activity> copies = reader.take();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_FALSE(copies[0].within_device);
}

TEST(ActivityReader, WhatNoCallIsFoundForIsItsDevicesAndNobodys) {
  ActivityReader reader;
  reader.read(base(kernel(1, 100, 250, 0)));
  reader.read(base(kernel(2, 100, 250, 1)));
  const std::vector<Activity> activities = reader.take_unclaimed(1);
  ASSERT_EQ(activities.size(), 1u);
  EXPECT_EQ(activities[0].id, 0u);
  EXPECT_EQ(activities[0].device, 1u);
  reader.read(base(correlation(1, 70)));
  EXPECT_EQ(reader.take().size(), 1u) << "the other device's may still be claimed";
}

TEST(ActivityReader, ForgottenPiecesOfWorkClaimNothing) {
  ActivityReader reader;
  reader.read(base(correlation(1, 70)));
  reader.read(base(correlation(2, 90)));
  reader.forget(70, 80);
  reader.read(base(kernel(1, 100, 250)));
  reader.read(base(kernel(2, 100, 250)));
  const std::vector<Activity> activities = reader.take();
  ASSERT_EQ(activities.size(), 1u);
  EXPECT_EQ(activities[0].id, 90u);
}

TEST(ActivityReader, OtherRecordsArePassedOver) {
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  ActivityReader reader;
  reader.read(base(call));
  EXPECT_TRUE(reader.take().empty());
  EXPECT_TRUE(reader.take_unclaimed(0).empty());
}

}  // namespace
}  // namespace ferry::cuda_backend
