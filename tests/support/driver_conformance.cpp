#include "tests/support/driver_conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace ferry {

using testing::Each;
using testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverConformance);

void host_add_kernel(const KernelContext& context) {
  const float* x = context.in(0).as<const float>();
  float* y = context.out().as<float>();
  const float amount = context.attributes.as<float>();
  for (std::int64_t i = 0; i < context.out().numel(); ++i) y[i] = x[i] + amount;
}

void host_refusing_kernel(const KernelContext&) { throw InvalidArgument("refused by the kernel"); }

std::string name_of_case(const testing::TestParamInfo<DriverCase>& info) { return info.param.name; }

void DriverConformance::TearDown() {
  for (void* block : device_blocks_) driver_->free(block, kSize);
  for (void* block : pinned_blocks_) driver_->free_pinned(block, kSize);
}

float* DriverConformance::device_vector() {
  device_blocks_.push_back(driver_->allocate(kSize));
  return static_cast<float*>(device_blocks_.back());
}

float* DriverConformance::pinned_vector(float value) {
  pinned_blocks_.push_back(driver_->allocate_pinned(kSize));
  auto* const vector = static_cast<float*>(pinned_blocks_.back());
  std::fill_n(vector, kElements, value);
  return vector;
}

void DriverConformance::add(float amount, const float* x, float* y, StreamId stream, std::uint64_t correlation) {
  TensorView in{.data = const_cast<float*>(x), .given = true, .shape = {kElements}, .strides = {1}};
  TensorView out{.data = y, .given = true, .shape = {kElements}, .strides = {1}};
  Attributes attributes = amount;
  driver_->launch({.kernel = GetParam().add,
                   .context = {.op = "add", .inputs = {&in, 1}, .outputs = {&out, 1}, .attributes = attributes},
                   .cost = {.flops = kElements, .bytes = 8.0 * kElements},
                   .where = std::source_location::current(),
                   .correlation = correlation},
                  stream);
  // What a launch is given is valid during the call only.
  in = out = {};
  attributes = -1e6f;
}

void DriverConformance::upload(float* device, const float* host, StreamId stream, HostMemory memory) {
  driver_->copy({device, host, kSize, CopyDirection::host_to_device, memory, "upload"}, stream);
}

void DriverConformance::download(float* host, const float* device, StreamId stream, HostMemory memory) {
  driver_->copy({host, device, kSize, CopyDirection::device_to_host, memory, "download"}, stream);
}

namespace {

constexpr StreamId kCompute{0};

std::vector<float> pageable_vector(float value, std::int64_t elements) {
  return std::vector<float>(static_cast<std::size_t>(elements), value);
}

class CollectingObserver final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

std::size_t address(const void* pointer) { return reinterpret_cast<std::size_t>(pointer); }

}  // namespace

TEST_P(DriverConformance, DescribesItself) {
  EXPECT_FALSE(driver_->info().name.empty());
  EXPECT_FALSE(driver_->info().description.empty());
  EXPECT_GT(driver_->info().capacity, Bytes{0});
}

TEST_P(DriverConformance, AllocationsAreAlignedAndApart) {
  std::vector<std::size_t> begins;
  for (int i = 0; i < 5; ++i) begins.push_back(address(device_vector()));
  std::sort(begins.begin(), begins.end());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    EXPECT_NE(begins[i], 0u);
    EXPECT_EQ(begins[i] % 512, 0u);
    if (i > 0) {
      EXPECT_GE(begins[i], begins[i - 1] + kSize.count);
    }
  }
  EXPECT_EQ(address(pinned_vector(0)) % 64, 0u);
}

TEST_P(DriverConformance, WhatDoesNotFitIsNull) {
  EXPECT_EQ(driver_->allocate(driver_->info().capacity + kMiB), nullptr);
  if (!GetParam().own_memory) return;
  const Bytes block{driver_->info().capacity.count / 4};
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> blocks;
    while (void* const next = driver_->allocate(block)) blocks.push_back(next);
    EXPECT_EQ(blocks.size(), 4u) << "round " << round;
    for (void* const each : blocks) driver_->free(each, block);
  }
}

TEST_P(DriverConformance, PinnedCopiesRoundTrip) {
  const float* const in = pinned_vector(3);
  float* const out = pinned_vector(0);
  float* const device = device_vector();
  upload(device, in, kCompute);
  download(out, device, kCompute);
  driver_->synchronize_stream(kCompute);
  EXPECT_THAT(std::vector<float>(out, out + kElements), Each(3));
}

TEST_P(DriverConformance, PageableCopiesAreDoneWithHostMemoryWhenTheyReturn) {
  std::vector<float> in = pageable_vector(4, kElements);
  float* const device = device_vector();
  upload(device, in.data(), kCompute, HostMemory::pageable);
  std::fill(in.begin(), in.end(), -1.0f);
  std::vector<float> out = pageable_vector(0, kElements);
  download(out.data(), device, kCompute, HostMemory::pageable);
  EXPECT_THAT(out, Each(4));
}

TEST_P(DriverConformance, CopiesInsideTheDevice) {
  float* const first = device_vector();
  float* const second = device_vector();
  upload(first, pinned_vector(5), kCompute);
  driver_->copy({second, first, kSize, CopyDirection::device_to_device, HostMemory::pinned, "inside"}, kCompute);
  std::vector<float> out = pageable_vector(0, kElements);
  download(out.data(), second, kCompute, HostMemory::pageable);
  EXPECT_THAT(out, Each(5));
}

TEST_P(DriverConformance, AStreamRunsInOrder) {
  const StreamId stream = driver_->create_stream("ordered");
  float* const device = device_vector();
  upload(device, pinned_vector(0), stream);
  for (int i = 0; i < 20; ++i) add(1, device, device, stream);
  float* const out = pinned_vector(-1);
  download(out, device, stream);
  driver_->synchronize_stream(stream);
  EXPECT_THAT(std::vector<float>(out, out + kElements), Each(20));
  driver_->destroy_stream(stream);
}

TEST_P(DriverConformance, EventsOrderStreams) {
  const StreamId up = driver_->create_stream("up"), down = driver_->create_stream("down");
  const EventId event = driver_->create_event();
  float* const device = device_vector();
  float* const out = pinned_vector(-1);
  for (int round = 0; round < 5; ++round) {
    upload(device, pinned_vector(static_cast<float>(round)), up);
    driver_->record_event(event, up);
    driver_->wait_event(kCompute, event);
    add(10, device, device, kCompute);
    driver_->record_event(event, kCompute);
    driver_->wait_event(down, event);
    download(out, device, down);
    driver_->record_event(event, down);
    driver_->wait_event(up, event);
    driver_->synchronize_event(event);
    EXPECT_TRUE(driver_->query_event(event));
    EXPECT_THAT(std::vector<float>(out, out + kElements), Each(10 + round));
  }
  driver_->destroy_event(event);
  driver_->destroy_stream(up);
  driver_->destroy_stream(down);
}

TEST_P(DriverConformance, AnEventNeverRecordedIsComplete) {
  const EventId event = driver_->create_event();
  EXPECT_TRUE(driver_->query_event(event));
  driver_->synchronize_event(event);
  driver_->wait_event(kCompute, event);
  driver_->synchronize();
  driver_->destroy_event(event);
}

TEST_P(DriverConformance, AnAwaitedEventMayBeRecordedAgainOrDestroyed) {
  const StreamId up = driver_->create_stream("up");
  const EventId event = driver_->create_event();
  float* const device = device_vector();
  float* const other = device_vector();
  upload(device, pinned_vector(1), up);
  driver_->record_event(event, up);
  driver_->wait_event(kCompute, event);
  upload(other, pinned_vector(2), up);
  driver_->record_event(event, up);
  driver_->destroy_event(event);
  add(1, device, device, kCompute);
  std::vector<float> out = pageable_vector(0, kElements);
  download(out.data(), device, kCompute, HostMemory::pageable);
  EXPECT_THAT(out, Each(2));
  driver_->synchronize();
  driver_->destroy_stream(up);
}

TEST_P(DriverConformance, HandlesCanBeMadeAndDroppedManyTimes) {
  for (int i = 0; i < 200; ++i) {
    const EventId event = driver_->create_event();
    driver_->record_event(event, kCompute);
    driver_->destroy_event(event);
    if (i % 20 == 0) driver_->destroy_stream(driver_->create_stream("short"));
  }
  driver_->synchronize();
}

TEST_P(DriverConformance, WorkOfADestroyedStreamIsStillDone) {
  const StreamId stream = driver_->create_stream("short");
  float* const device = device_vector();
  upload(device, pinned_vector(6), stream);
  add(1, device, device, stream);
  driver_->destroy_stream(stream);
  driver_->synchronize();
  std::vector<float> out = pageable_vector(0, kElements);
  download(out.data(), device, kCompute, HostMemory::pageable);
  EXPECT_THAT(out, Each(7));
}

TEST_P(DriverConformance, AnErrorInWorkIsThrownOnceWithItsOpAndLine) {
  if (GetParam().refuse == nullptr) GTEST_SKIP() << "kernels of this backend cannot fail";
  std::vector<std::string> errors;
  const auto attempt = [&](auto call) {
    try {
      call();
    } catch (const InvalidArgument& error) {
      errors.emplace_back(error.what());
    }
  };
  const Attributes none{};
  attempt([&] {
    driver_->launch({.kernel = GetParam().refuse,
                     .context = {.op = "refuse", .inputs = {}, .outputs = {}, .attributes = none},
                     .cost = {},
                     .where = std::source_location::current()},
                    kCompute);
  });
  for (int i = 0; i < 3; ++i) attempt([&] { driver_->synchronize(); });
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0], HasSubstr("refused by the kernel"));

  float* const device = device_vector();
  upload(device, pinned_vector(1), kCompute);
  add(1, device, device, kCompute);
  std::vector<float> out = pageable_vector(0, kElements);
  download(out.data(), device, kCompute, HostMemory::pageable);
  EXPECT_THAT(out, Each(2)) << "the driver goes on after an error";
}

TEST_P(DriverConformance, TheClockNeverGoesBack) {
  Nanoseconds last = driver_->clock().now();
  const auto moved = [&] {
    const Nanoseconds now = driver_->clock().now();
    EXPECT_GE(now, last);
    last = now;
  };
  float* const device = device_vector();
  upload(device, pinned_vector(0), kCompute);
  moved();
  add(1, device, device, kCompute);
  moved();
  driver_->synchronize();
  moved();
}

TEST_P(DriverConformance, RecordedWorkIsReportedOnce) {
  CollectingObserver observer;
  float* const device = device_vector();
  const float* const host = pinned_vector(0);
  driver_->set_work_observer(&observer);
  driver_->copy({device, host, kSize, CopyDirection::host_to_device, HostMemory::pinned, "upload", 11}, kCompute);
  add(1, device, device, kCompute, 12);
  add(1, device, device, kCompute);
  driver_->synchronize();
  driver_->flush_work_records();
  driver_->set_work_observer(nullptr);
  add(1, device, device, kCompute, 13);
  driver_->synchronize();
  driver_->flush_work_records();

  ASSERT_EQ(observer.records.size(), 2u);
  EXPECT_EQ(observer.records[0].correlation, 11u);
  EXPECT_EQ(observer.records[0].kind, trace::WorkKind::copy);
  EXPECT_EQ(observer.records[1].correlation, 12u);
  EXPECT_EQ(observer.records[1].kind, trace::WorkKind::kernel);
  for (const trace::WorkRecord& record : observer.records) {
    EXPECT_LE(record.begin, record.end);
    EXPECT_EQ(record.stream, kCompute.value);
  }
}

TEST_P(DriverConformance, ThreadsMayShareADriver) {
  const auto round_trip = [](Driver& driver, float* device, float* host, StreamId stream) {
    for (int i = 0; i < 20; ++i) {
      driver.copy({device, host, kSize, CopyDirection::host_to_device, HostMemory::pinned, "upload"}, stream);
      driver.copy({host, device, kSize, CopyDirection::device_to_host, HostMemory::pinned, "download"}, stream);
      driver.synchronize_stream(stream);
    }
  };
  float* const hosts[] = {pinned_vector(1), pinned_vector(2)};
  float* const devices[] = {device_vector(), device_vector()};
  const StreamId streams[] = {driver_->create_stream("first"), driver_->create_stream("second")};
  std::thread second(round_trip, std::ref(*driver_), devices[1], hosts[1], streams[1]);
  round_trip(*driver_, devices[0], hosts[0], streams[0]);
  second.join();
  EXPECT_THAT(std::vector<float>(hosts[0], hosts[0] + kElements), Each(1));
  EXPECT_THAT(std::vector<float>(hosts[1], hosts[1] + kElements), Each(2));
}

}  // namespace ferry
