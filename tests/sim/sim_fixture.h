// A simulated GPU with round figures, and small kernels to run on it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/backends/sim/sim_driver.h"

namespace ferry {

constexpr StreamId kCompute{0};

// 100 GB/s of memory at full efficiency, 1e12 operations a second, a link of 10 GB/s, pageable at half of that: 1,000
// bytes take 100 ns on the link; the fixed costs are 1 us (kernel), 2 us (launch), 3 us (link latency).
inline DeviceSpec round_spec() {
  DeviceSpec spec;
  spec.name = "round";
  spec.description = "A card with round figures";
  spec.memory = kMiB * 64;
  spec.bytes_per_second = 100e9;
  spec.flops_per_second.fill(1e12);
  spec.efficiency.fill(1);
  spec.kernel_cost = std::chrono::microseconds(1);
  spec.launch_cost = std::chrono::microseconds(2);
  spec.allocation_cost = Nanoseconds{0};
  spec.host_to_device = {.bytes_per_second = 10e9, .latency = std::chrono::microseconds(3)};
  spec.device_to_host = {.bytes_per_second = 10e9, .latency = std::chrono::microseconds(3)};
  spec.pageable_factor = 0.5;
  return spec;
}

inline TensorView vector_view(void* data, std::int64_t elements) {
  return {.data = data, .dtype = DType::f32, .given = true, .shape = {elements}, .strides = {1}};
}

// y = x + 1
inline void increment_kernel(const KernelContext& context) {
  const float* x = context.in(0).as<const float>();
  float* y = context.out().as<float>();
  for (std::int64_t i = 0; i < context.out().numel(); ++i) y[i] = x[i] + 1;
}

inline void failing_kernel(const KernelContext& context) {
  throw InvalidArgument("index " + std::to_string(context.attributes.as<int>()) + " is out of range");
}

inline void no_kernel(const KernelContext&) {}

class RecordingObserver final : public WorkObserver {
 public:
  void on_work(const trace::WorkRecord& record) override { records.push_back(record); }
  std::vector<trace::WorkRecord> records;
};

class SimFixture : public ::testing::Test {
 protected:
  void open(SimOptions options) {
    options.spec = round_spec();
    options.clock = clock_;
    driver_ = make_sim_driver(std::move(options));
    driver_->set_work_observer(&observer_);
  }

  // A kernel that takes `duration` of device time, its fixed cost included, and does nothing.
  void launch(StreamId stream, Nanoseconds duration, std::uint64_t correlation = 1) {
    const double flops = static_cast<double>((duration - round_spec().kernel_cost).count()) * 1e3;
    static const Attributes none{};
    driver_->launch({.kernel = no_kernel,
                     .context = {.op = "work", .inputs = {}, .outputs = {}, .attributes = none},
                     .cost = {.flops = flops},
                     .where = std::source_location::current(),
                     .correlation = correlation},
                    stream);
  }
  void increment(const void* x, void* y, std::int64_t elements, StreamId stream, std::string_view op = "increment") {
    static const Attributes none{};
    const TensorView in = vector_view(const_cast<void*>(x), elements), out = vector_view(y, elements);
    driver_->launch({.kernel = increment_kernel,
                     .context = {.op = op, .inputs = {&in, 1}, .outputs = {&out, 1}, .attributes = none},
                     .cost = {},
                     .where = std::source_location::current()},
                    stream);
  }
  void fail(int index, StreamId stream) {
    const Attributes attributes = index;
    driver_->launch({.kernel = failing_kernel,
                     .context = {.op = "gather", .inputs = {}, .outputs = {}, .attributes = attributes},
                     .cost = {},
                     .where = std::source_location::current()},
                    stream);
  }
  void upload(void* device, const void* host, Bytes size, StreamId stream, HostMemory memory = HostMemory::pinned,
              std::uint64_t correlation = 1) {
    driver_->copy({device, host, size, CopyDirection::host_to_device, memory, "upload", correlation}, stream);
  }
  void download(void* host, const void* device, Bytes size, StreamId stream, HostMemory memory = HostMemory::pinned,
                std::uint64_t correlation = 1) {
    driver_->copy({host, device, size, CopyDirection::device_to_host, memory, "download", correlation}, stream);
  }
  Nanoseconds now() const { return clock_->now(); }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  std::unique_ptr<Driver> driver_;
  RecordingObserver observer_;
};

}  // namespace ferry
