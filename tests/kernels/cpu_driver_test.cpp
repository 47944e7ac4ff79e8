#include "src/backends/cpu/cpu_driver.h"

#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry {
namespace {

using testing::Array;

class Observer final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

struct Launch {
  explicit Launch(const char* op, std::vector<TensorView> in, std::vector<TensorView> out, Attributes parameters = {})
      : inputs(std::move(in)),
        outputs(std::move(out)),
        attributes(parameters),
        launch{testing::kernel(op), {op, inputs, outputs, attributes}, {}, std::source_location::current(), 0} {}
  std::vector<TensorView> inputs, outputs;
  Attributes attributes;
  KernelLaunch launch;
};

std::unique_ptr<Driver> checked_driver(std::shared_ptr<OrderingChecker> checker) {
  CpuOptions options;
  options.checker = std::move(checker);
  return make_cpu_driver(std::move(options));
}

TEST(CpuDriver, RunsKernelsAtLaunch) {
  const auto driver = make_cpu_driver({});
  Array a = Array::of(DType::f32, {2}, {1, 2}), y(DType::f32, {2});
  driver->launch(Launch("add", {a.view(), a.view()}, {y.view()}).launch, StreamId{0});
  EXPECT_EQ(y.values(), (std::vector<double>{2, 4}));
  EXPECT_EQ(driver->info().name, "cpu");
  EXPECT_GT(driver->info().capacity, kMiB);
  EXPECT_FALSE(driver->needs_cost());
  EXPECT_FALSE(driver->clock().is_virtual());
  EXPECT_TRUE(driver->query_event(driver->create_event()));
}

TEST(CpuDriver, GivesAlignedZeroedMemoryAndTakesItBack) {
  const auto driver = make_cpu_driver({});
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{4097}, std::int64_t{2} << 20, (std::int64_t{9} << 20) + 5}) {
    auto* const memory = static_cast<unsigned char*>(driver->allocate(Bytes{size}));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % (size >= (2 << 20) ? 2u << 20 : 512u), 0u);
    EXPECT_EQ(memory[0] + memory[size - 1], 0);
    memory[size - 1] = 1;
    driver->free(memory, Bytes{size});
  }
  EXPECT_EQ(driver->allocate(Bytes{0}), nullptr);
  EXPECT_EQ(driver->allocate(Bytes{std::int64_t{1} << 60}), nullptr);
}

TEST(CpuDriver, LocatesAKernelsError) {
  const auto driver = make_cpu_driver({});
  Array table(DType::f32, {2, 2}), ids = Array::of(DType::i64, {1}, {2}), y(DType::f32, {1, 2});
  const std::string message = testing::message_of([&] {
    driver->launch(Launch("embedding", {table.view(), ids.view()}, {y.view()}).launch, StreamId{0});
  });
  EXPECT_NE(message.find("ids[0] = 2"), std::string::npos);
  EXPECT_NE(message.find("[embedding at "), std::string::npos);
  EXPECT_NE(message.find("cpu_driver_test.cpp"), std::string::npos);
}

DeviceSpec slow_host() {
  DeviceSpec spec;
  spec.bytes_per_second = 1e9;
  spec.flops_per_second.fill(1e9);
  spec.efficiency.fill(1);
  return spec;
}

// A driver on a virtual clock with the slow host's model.
CpuOptions virtual_options(std::shared_ptr<VirtualClock> clock) {
  CpuOptions options;
  options.clock = std::move(clock);
  options.model = slow_host();
  return options;
}

TEST(CpuDriver, LaunchesAndCopiesTakeModelledTimeOnAVirtualClock) {
  const auto clock = std::make_shared<VirtualClock>();
  const auto driver = make_cpu_driver(virtual_options(clock));
  EXPECT_TRUE(driver->needs_cost());
  Observer observer;
  driver->set_work_observer(&observer);
  Array a = Array::of(DType::f32, {2}, {1, 2}), y(DType::f32, {2});
  Launch launch("add", {a.view(), a.view()}, {y.view()});
  launch.launch.cost = {.op_class = OpClass::elementwise, .bytes = 2e6};
  launch.launch.correlation = 5;
  driver->launch(launch.launch, StreamId{0});
  EXPECT_EQ(clock->now(), std::chrono::milliseconds(2));
  ASSERT_EQ(observer.records.size(), 1u);
  EXPECT_EQ(observer.records[0].correlation, 5u);
  EXPECT_EQ(observer.records[0].end - observer.records[0].begin, std::chrono::milliseconds(2));
  std::vector<char> from(1000000, 3), to(1000000);
  driver->copy({to.data(), from.data(), Bytes{1000000}, CopyDirection::host_to_host, HostMemory::pageable, "test", 0},
               StreamId{0});
  EXPECT_EQ(to, from);
  EXPECT_EQ(clock->now(), std::chrono::milliseconds(4));
  EXPECT_EQ(observer.records.size(), 1u);
}

TEST(CpuDriver, MeasuredTimeMovesTheVirtualClockWithoutCosts) {
  const auto clock = std::make_shared<VirtualClock>();
  CpuOptions options = virtual_options(clock);
  options.measured_time = true;
  const auto driver = make_cpu_driver(std::move(options));
  EXPECT_FALSE(driver->needs_cost());
  Array y(DType::f32, {100000});
  driver->launch(Launch("fill", {}, {y.view()}, ops::FillAttributes{1}).launch, StreamId{0});
  EXPECT_GT(clock->now(), Nanoseconds(0));
}

TEST(CpuDriver, TimingOnlyReservesMemoryAndRunsNothing) {
  const auto clock = std::make_shared<VirtualClock>();
  CpuOptions options = virtual_options(clock);
  options.values = false;
  const auto driver = make_cpu_driver(std::move(options));
  EXPECT_FALSE(driver->info().computes_values);
  const Bytes more_than_the_machine = driver->info().capacity * 4;
  void* const memory = driver->allocate(more_than_the_machine);
  ASSERT_NE(memory, nullptr);
  const TensorView y{memory, DType::f32, true, {1 << 20}, {1}};
  Launch launch("fill", {}, {y}, ops::FillAttributes{1});
  launch.launch.cost = {.op_class = OpClass::fill, .bytes = 4e6};
  driver->launch(launch.launch, StreamId{0});
  driver->copy({memory, static_cast<char*>(memory) + 4096, Bytes{4096}, CopyDirection::host_to_host,
                HostMemory::pageable, "test", 0},
               StreamId{0});
  EXPECT_GE(clock->now(), std::chrono::milliseconds(4));
  driver->free(memory, more_than_the_machine);
}

TEST(CpuDriver, TellsTheCheckerWhatKernelsTouch) {
  const auto checker = std::make_shared<OrderingChecker>();
  const auto driver = checked_driver(checker);
  auto* const memory = static_cast<float*>(driver->allocate(Bytes{4096}));
  driver->note_allocated(memory, Bytes{4096}, StreamId{0});
  const TensorView y{memory, DType::f32, true, {8}, {1}};
  EXPECT_NO_THROW(driver->launch(Launch("fill", {}, {y}, ops::FillAttributes{1}).launch, StreamId{0}));
  driver->note_freed(memory, Bytes{4096}, StreamId{0});
  EXPECT_THROW(driver->launch(Launch("fill", {}, {y}, ops::FillAttributes{1}).launch, StreamId{0}), OrderingError);
  driver->free(memory, Bytes{4096});
}

}  // namespace
}  // namespace ferry
