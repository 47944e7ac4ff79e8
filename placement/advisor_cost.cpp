#include "placement/advisor_cost.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace ferry::placement {
namespace {

double nanoseconds(Nanoseconds time) { return static_cast<double>(time.count()); }

}  // namespace

CopyCost::CopyCost(const trace::Trace& trace) : synchronous_(trace.copy_mode != "staged") {
  struct Sums {
    double n = 0, size = 0, time = 0, size_size = 0, size_time = 0, drain = 0;
  };
  Sums sums[2];
  for (const trace::CopyRecord& copy : trace.copies) {
    if (!copy.synchronous && copy.cause != trace::CopyCause::fetch) continue;
    Sums& s = sums[copy.to.is_cpu() ? 1 : 0];
    const auto size = static_cast<double>(copy.size.count);
    const double time = nanoseconds(copy.transfer);
    s.n += 1;
    s.size += size;
    s.time += time;
    s.size_size += size * size;
    s.size_time += size * time;
    s.drain += nanoseconds(copy.drain);
  }
  const auto line = [](const Sums& s) {
    Line fitted;
    const double spread = s.n * s.size_size - s.size * s.size;
    // Copies of one size only tell latency and rate apart by an assumed rate.
    if (spread > 0) fitted.per_byte = std::max(0.0, (s.n * s.size_time - s.size * s.time) / spread);
    fitted.latency = (s.time - fitted.per_byte * s.size) / s.n;
    if (fitted.latency < 0) fitted = {.latency = 0, .per_byte = s.time / s.size};
    fitted.drain = s.drain / s.n;
    return fitted;
  };
  if (sums[0].n > 0) to_device_ = line(sums[0]);
  if (sums[1].n > 0) to_host_ = line(sums[1]);
  if (sums[0].n == 0) to_device_ = to_host_;
  if (sums[1].n == 0) to_host_ = to_device_;
}

Nanoseconds CopyCost::blocked(Device from, Device to, Bytes size) const {
  if (!blocks(from, to)) return Nanoseconds(0);
  const Line& line = to.is_cpu() ? to_host_ : to_device_;
  return Nanoseconds(
      static_cast<std::int64_t>(line.drain + line.latency + line.per_byte * static_cast<double>(size.count)));
}

OpCost::OpCost(const trace::Trace& trace) : trace_(trace), measured_(trace.ops.size()) {
  std::unordered_map<std::uint64_t, Nanoseconds> device_time;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::kernel && work.device.is_gpu()) {
      device_time[work.correlation] += work.end - work.begin;
    }
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) measured_[i] = trace.ops[i].end - trace.ops[i].begin;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.op >= 0) measured_[static_cast<std::size_t>(copy.op)] -= copy.end - copy.begin;
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const trace::OpRecord& op = trace.ops[i];
    const auto work = device_time.find(op.correlation);
    if (op.device.is_gpu() && op.correlation != 0 && work != device_time.end()) measured_[i] += work->second;
    SameOp& same = same_op_[{op.name, op.device.type}];
    same.time += nanoseconds(measured_[i]);
    same.bytes += op.bytes;
    ++same.calls;
  }
  fit(DeviceType::cpu, cpu_);
  fit(DeviceType::gpu, gpu_);
}

void OpCost::fit(DeviceType type, Rate& rate) const {
  double fixed = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    if (trace_.ops[i].device.type == type) fixed = std::min(fixed, nanoseconds(measured_[i]));
  }
  if (fixed == std::numeric_limits<double>::max()) return;
  double time = 0, flops = 0, bytes = 0;
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    if (trace_.ops[i].device.type != type) continue;
    time += nanoseconds(measured_[i]) - fixed;
    flops += trace_.ops[i].flops;
    bytes += trace_.ops[i].bytes;
  }
  rate.fixed = fixed;
  // Small ops measure their fixed cost, not a rate.
  constexpr double kEnoughBytes = 1 << 20, kEnoughFlops = 1e7;
  if (time > 0 && bytes > kEnoughBytes) rate.bytes_per_ns = bytes / time;
  if (time > 0 && flops > kEnoughFlops) rate.flops_per_ns = flops / time;
}

Nanoseconds OpCost::on(trace::OpIndex index, Device device) const {
  const trace::OpRecord& op = trace_.ops[static_cast<std::size_t>(index)];
  if (op.device.type == device.type) return measured(index);
  const auto same = same_op_.find({op.name, device.type});
  if (same != same_op_.end()) {
    const double mean = same->second.time / static_cast<double>(same->second.calls);
    const double mean_bytes = same->second.bytes / static_cast<double>(same->second.calls);
    const double scale = mean_bytes > 0 && op.bytes > 0 ? op.bytes / mean_bytes : 1;
    return Nanoseconds(static_cast<std::int64_t>(mean * std::max(1.0, scale)));
  }
  const Rate& rate = device.is_cpu() ? cpu_ : gpu_;
  const double time = std::max(op.flops / rate.flops_per_ns, op.bytes / rate.bytes_per_ns) + rate.fixed;
  return Nanoseconds(static_cast<std::int64_t>(time));
}

}  // namespace ferry::placement
