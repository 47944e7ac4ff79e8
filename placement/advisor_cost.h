// What a copy or an op would cost elsewhere, estimated from what the same trace measured.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "placement/cost_model.h"
#include "src/trace/trace.h"

namespace ferry::placement {

// Host time of a copy. Transfers are fitted as latency + size × rate over the blocking copies of the same direction;
// draining is their mean. A direction never measured is taken as the other one, and without any as 10 us + 6 GB/s, a
// pageable copy over PCIe 3.0 x16. Enqueuing a copy that does not block takes the median of those measured, without
// any as long as launching a kernel. A model of the devices, where there is one, says all of it but the draining.
class CopyCost {
 public:
  // The model, which may be null, must outlive this.
  explicit CopyCost(const trace::Trace& trace, const CostModel* model = nullptr);

  // Waiting and copying; enqueuing for a copy that does not block: host→device in staged mode.
  Nanoseconds host_time(Device from, Device to, Bytes size) const;
  Nanoseconds issue(Device from, Device to, Bytes size) const;
  Nanoseconds transfer(Device from, Device to, Bytes size) const;
  bool blocks(Device from, Device to) const { return synchronous_ || (from.is_gpu() && to.is_cpu()); }

 private:
  struct Line {
    double latency = 10'000, per_byte = 1 / 6.0;  // ns
    double drain = 0;                             // ns
  };
  const CostModel* model_;
  bool synchronous_;
  Nanoseconds issue_{5'000};
  Line to_device_, to_host_;
};

// Time of an op: measured where it ran. On the other kind of device by the same op's time there if the trace has it
// (scaled by bytes), else max(flops / rate, bytes / rate) + fixed, with the rates of that kind of device in this trace,
// else, conservatively: CPU 20 GFLOP/s, 5 GB/s, 2 us; GPU 1 TFLOP/s, 100 GB/s, 10 us. With a model of the devices: what
// that says.
class OpCost {
 public:
  // The trace and the model, which may be null, must outlive this.
  explicit OpCost(const trace::Trace& trace, const CostModel* model = nullptr);

  // Host and device time together.
  Nanoseconds measured(trace::OpIndex op) const { return measured_host(op) + measured_device(op); }
  Nanoseconds on(trace::OpIndex op, Device device) const;

  Nanoseconds measured_host(trace::OpIndex op) const { return host_[static_cast<std::size_t>(op)]; }
  Nanoseconds measured_device(trace::OpIndex op) const { return device_[static_cast<std::size_t>(op)]; }
  // True where the trace shows no call of this op on that kind of device. Such an op is not taken to get faster there:
  // that would be no measured argument.
  bool is_estimate(trace::OpIndex op, Device device) const;
  Nanoseconds host_on(trace::OpIndex op, Device device) const;
  Nanoseconds device_on(trace::OpIndex op, Device device) const;

 private:
  struct Rate {
    double flops_per_ns, bytes_per_ns, fixed;
  };
  struct SameOp {
    double host = 0, device = 0, bytes = 0;
    std::int64_t calls = 0;
    double time() const { return host + device; }
  };
  const SameOp* same_op(const trace::OpRecord& op, DeviceType type) const;
  // Mean of the measured calls of the same op, scaled to this one's bytes.
  static Nanoseconds scaled(const trace::OpRecord& op, const SameOp& same, double sum);
  void fit(DeviceType type, Rate& rate) const;

  const trace::Trace& trace_;
  const CostModel* model_;
  std::vector<Nanoseconds> host_, device_;
  Nanoseconds launch_{5'000};  // host time of a kernel's launch, the least measured
  std::map<std::pair<trace::StringIndex, DeviceType>, SameOp> same_op_;
  Rate cpu_{20, 5, 2'000}, gpu_{1'000, 100, 10'000};
};

}  // namespace ferry::placement
