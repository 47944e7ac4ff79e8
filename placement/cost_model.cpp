#include "placement/cost_model.h"

#include <algorithm>
#include <string_view>

#include <ferry/error.h>
#include "src/device/device_spec.h"
#include "src/ops/op_list.h"

namespace ferry::placement {
namespace {

constexpr std::string_view kSimulated = "sim:";

// The spec of the trace's only GPU.
std::optional<DeviceSpec> spec_of_gpu(const trace::Trace& trace) {
  const trace::DeviceInfo* only = nullptr;
  for (const trace::DeviceInfo& info : trace.devices) {
    if (info.device.is_cpu()) continue;
    if (only != nullptr || !info.name.starts_with(kSimulated) || !info.virtual_time) return std::nullopt;
    only = &info;
  }
  if (only == nullptr) return std::nullopt;
  try {
    return load_device_spec(only->name.substr(kSimulated.size()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

Cost cost_of(const trace::Trace& trace, const trace::OpRecord& op) {
  Cost cost{.flops = op.flops, .bytes = op.bytes};
  if (const ops::OpSchema* schema = ops::find_op(trace.string(op.name))) cost.op_class = schema->op_class;
  if (!op.outputs.empty() && op.outputs.front().tensor >= 0)
    cost.dtype = trace.tensors[static_cast<std::size_t>(op.outputs.front().tensor)].dtype;
  return cost;
}

LinkModel link_model(const DeviceSpec& spec, CopyDirection direction, HostMemory memory) {
  const LinkSpec& link = direction == CopyDirection::host_to_device ? spec.host_to_device : spec.device_to_host;
  const double factor = memory == HostMemory::pageable ? spec.pageable_factor : 1;
  return {link.latency, link.bytes_per_second * factor / 1e9};
}

}  // namespace

std::optional<CostModel> model_of_specs(const trace::Trace& trace) {
  const std::optional<DeviceSpec> gpu = spec_of_gpu(trace);
  if (!gpu) return std::nullopt;
  const DeviceSpec host = load_device_spec("host");
  CostModel model{.launch = gpu->launch_cost, .allocation = gpu->allocation_cost};
  for (const trace::OpRecord& op : trace.ops) {
    const Cost cost = cost_of(trace, op);
    model.on_cpu.push_back(host.duration(cost));
    model.on_gpu.push_back(gpu->duration(cost));
  }
  const HostMemory memory = trace.copy_mode == "staged" ? HostMemory::pinned : HostMemory::pageable;
  model.to_gpu = link_model(*gpu, CopyDirection::host_to_device, memory);
  model.to_cpu = link_model(*gpu, CopyDirection::device_to_host, memory);
  const Nanoseconds none = host.copy_duration({}, CopyDirection::host_to_host, HostMemory::pageable);
  const Nanoseconds some = host.copy_duration(kGiB, CopyDirection::host_to_host, HostMemory::pageable);
  const auto rate =
      static_cast<double>(kGiB.count) / static_cast<double>(std::max((some - none).count(), std::int64_t{1}));
  model.staging = {none, rate};
  return model;
}

}  // namespace ferry::placement
