#include "placement/advisor_cost.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

namespace ferry::placement {
namespace {

double nanoseconds(Nanoseconds time) { return static_cast<double>(time.count()); }

}  // namespace

CopyCost::CopyCost(const trace::Trace& trace, const CostModel* model)
    : model_(model), synchronous_(trace.copy_mode != "staged") {
  struct Sums {
    double n = 0, size = 0, time = 0, size_size = 0, size_time = 0, drain = 0;
  };
  Sums sums[2];
  std::vector<Nanoseconds> issued;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (!copy.synchronous && copy.cause != trace::CopyCause::fetch) {
      if (copy.to.is_gpu()) issued.push_back(copy.end - copy.begin);
      continue;
    }
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
  if (!issued.empty()) {
    const auto middle = issued.begin() + static_cast<std::ptrdiff_t>(issued.size() / 2);
    std::ranges::nth_element(issued, middle);
    issue_ = *middle;
  }
}

Nanoseconds CopyCost::issue(Device from, Device to, Bytes size) const {
  if (blocks(from, to)) return Nanoseconds(0);
  return model_ != nullptr ? model_->staging.time(size) : issue_;
}

Nanoseconds CopyCost::transfer(Device /*from*/, Device to, Bytes size) const {
  if (model_ != nullptr) return (to.is_cpu() ? model_->to_cpu : model_->to_gpu).time(size);
  const Line& line = to.is_cpu() ? to_host_ : to_device_;
  return Nanoseconds(static_cast<std::int64_t>(line.latency + line.per_byte * static_cast<double>(size.count)));
}

Nanoseconds CopyCost::host_time(Device from, Device to, Bytes size) const {
  if (!blocks(from, to)) return issue(from, to, size);
  const Line& line = to.is_cpu() ? to_host_ : to_device_;
  return Nanoseconds(static_cast<std::int64_t>(line.drain)) + transfer(from, to, size);
}

OpCost::OpCost(const trace::Trace& trace, const CostModel* model)
    : trace_(trace), model_(model), host_(trace.ops.size()), device_(trace.ops.size()) {
  std::unordered_map<std::uint64_t, Nanoseconds> device_time;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::kernel && work.device.is_gpu()) {
      device_time[work.correlation] += work.end - work.begin;
    }
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) host_[i] = trace.ops[i].end - trace.ops[i].begin;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.op >= 0) host_[static_cast<std::size_t>(copy.op)] -= copy.end - copy.begin;
  }
  Nanoseconds launch = Nanoseconds::max();
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const trace::OpRecord& op = trace.ops[i];
    const auto work = device_time.find(op.correlation);
    if (op.device.is_gpu() && op.correlation != 0 && work != device_time.end()) device_[i] = work->second;
    if (op.device.is_gpu()) launch = std::min(launch, host_[i]);
    SameOp& same = same_op_[{op.name, op.device.type}];
    same.host += nanoseconds(host_[i]);
    same.device += nanoseconds(device_[i]);
    same.bytes += op.bytes;
    ++same.calls;
  }
  if (launch != Nanoseconds::max()) launch_ = launch;
  fit(DeviceType::cpu, cpu_);
  fit(DeviceType::gpu, gpu_);
}

void OpCost::fit(DeviceType type, Rate& rate) const {
  // The fixed cost is what the quickest call took beyond its work at the assumed rates.
  double quickest = std::numeric_limits<double>::max(), beyond = quickest;
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    const trace::OpRecord& op = trace_.ops[i];
    if (op.device.type != type) continue;
    const double time = nanoseconds(host_[i] + device_[i]);
    quickest = std::min(quickest, time);
    beyond = std::min(beyond, time - std::max(op.flops / rate.flops_per_ns, op.bytes / rate.bytes_per_ns));
  }
  if (quickest == std::numeric_limits<double>::max()) return;
  const double fixed = std::min(quickest, std::max(beyond, rate.fixed));
  double time = 0, flops = 0, bytes = 0;
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    if (trace_.ops[i].device.type != type) continue;
    time += nanoseconds(host_[i] + device_[i]) - fixed;
    flops += trace_.ops[i].flops;
    bytes += trace_.ops[i].bytes;
  }
  rate.fixed = fixed;
  // Small ops measure their fixed cost, not a rate.
  constexpr double kEnoughBytes = 1 << 20, kEnoughFlops = 1e7;
  if (time > 0 && bytes > kEnoughBytes) rate.bytes_per_ns = bytes / time;
  if (time > 0 && flops > kEnoughFlops) rate.flops_per_ns = flops / time;
}

const OpCost::SameOp* OpCost::same_op(const trace::OpRecord& op, DeviceType type) const {
  const auto same = same_op_.find({op.name, type});
  return same == same_op_.end() ? nullptr : &same->second;
}

Nanoseconds OpCost::scaled(const trace::OpRecord& op, const SameOp& same, double sum) {
  const double mean = sum / static_cast<double>(same.calls), mean_bytes = same.bytes / static_cast<double>(same.calls);
  const double scale = mean_bytes > 0 && op.bytes > 0 ? op.bytes / mean_bytes : 1;
  return Nanoseconds(static_cast<std::int64_t>(mean * std::max(1.0, scale)));
}

Nanoseconds OpCost::on(trace::OpIndex index, Device device) const {
  const trace::OpRecord& op = trace_.ops[static_cast<std::size_t>(index)];
  if (op.device.type == device.type) return measured(index);
  if (model_ != nullptr) return host_on(index, device) + device_on(index, device);
  if (const SameOp* same = same_op(op, device.type)) return scaled(op, *same, same->time());
  const Rate& rate = device.is_cpu() ? cpu_ : gpu_;
  const double time = std::max(op.flops / rate.flops_per_ns, op.bytes / rate.bytes_per_ns) + rate.fixed;
  return Nanoseconds(static_cast<std::int64_t>(time));
}

bool OpCost::is_estimate(trace::OpIndex index, Device device) const {
  const trace::OpRecord& op = trace_.ops[static_cast<std::size_t>(index)];
  return model_ == nullptr && op.device.type != device.type && same_op(op, device.type) == nullptr;
}

Nanoseconds OpCost::host_on(trace::OpIndex index, Device device) const {
  const trace::OpRecord& op = trace_.ops[static_cast<std::size_t>(index)];
  if (op.device.type == device.type) return measured_host(index);
  if (model_ != nullptr) return device.is_cpu() ? model_->on_cpu[static_cast<std::size_t>(index)] : model_->launch;
  if (const SameOp* same = same_op(op, device.type))
    return device.is_cpu() ? scaled(op, *same, same->host)
                           : Nanoseconds(static_cast<std::int64_t>(same->host / static_cast<double>(same->calls)));
  return device.is_cpu() ? std::max(on(index, device), measured_host(index)) : launch_;
}

Nanoseconds OpCost::device_on(trace::OpIndex index, Device device) const {
  if (device.is_cpu()) return Nanoseconds(0);
  const trace::OpRecord& op = trace_.ops[static_cast<std::size_t>(index)];
  if (op.device.type == device.type) return measured_device(index);
  if (model_ != nullptr) return model_->on_gpu[static_cast<std::size_t>(index)];
  if (const SameOp* same = same_op(op, device.type)) return scaled(op, *same, same->device);
  return std::max(std::max(on(index, device), measured(index)) - launch_, Nanoseconds(0));
}

}  // namespace ferry::placement
