// Builds traces for tests: runs a list of ops on a small model of a host and one GPU, with fixed costs, and records
// what a runtime would have recorded. Inputs that live elsewhere are copied, as the copy mode says.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/trace/trace.h"

namespace ferry::testing {

using namespace std::chrono_literals;

struct Arg {
  Arg(int index) : tensor(index) {}  // NOLINT(google-explicit-constructor)
  Arg(int index, bool in_host_memory) : tensor(index), host(in_host_memory) {}
  int tensor;
  bool host = false;
};

// An argument that lives in host memory wherever the op runs.
inline Arg host(int tensor) { return {tensor, true}; }

struct OpSpec {
  std::string name{};
  int line = 1;
  Device device = gpu::device;
  std::vector<Arg> inputs{}, outputs{};
  Nanoseconds time = 20us;  // of the kernel, on the op's device
  double flops = 0, bytes = 1000;
  bool has_gpu_kernel = true;
  std::string scope{};
  trace::PlacementCause cause = trace::PlacementCause::default_device;
  trace::Phase phase = trace::Phase::forward;
  std::uint32_t thread = 0;
};

class TraceBuilder {
 public:
  static constexpr Nanoseconds kLaunch = 5us;
  static constexpr Nanoseconds kCopyLatency = 10us;
  static constexpr std::int64_t kBytesPerNanosecond = 10;

  explicit TraceBuilder(std::string copy_mode = "synchronous") {
    trace_.copy_mode = std::move(copy_mode);
    trace_.devices.push_back({.device = cpu::device, .name = "cpu", .capacity = kGiB * 16});
    trace_.devices.push_back({.device = gpu::device,
                              .name = "sim:rtx2080ti",
                              .virtual_time = true,
                              .capacity = kGiB * 11,
                              .peak_allocated = kMiB * 3,
                              .peak_reserved = kMiB * 20,
                              .streams = {"compute", "h2d", "d2h"}});
  }

  // A tensor that nothing in the trace produced is valid on `home`.
  int tensor(const std::string& name, Bytes size, Device home = cpu::device) {
    trace_.tensors.push_back({.name = name, .shape = Shape{size.count / 4}, .size = size});
    valid_.push_back({home});
    return static_cast<int>(trace_.tensors.size()) - 1;
  }

  void op(const OpSpec& spec) {
    trace::OpRecord record{.name = string(spec.name),
                           .site = site(spec.line),
                           .scope = scope_of(spec.scope),
                           .device = spec.device,
                           .cause = spec.cause,
                           .phase = spec.phase,
                           .thread = spec.thread,
                           .begin = now_,
                           .flops = spec.flops,
                           .bytes = spec.bytes,
                           .has_gpu_kernel = spec.has_gpu_kernel};
    const auto index = static_cast<trace::OpIndex>(trace_.ops.size());
    for (const Arg& arg : spec.inputs) {
      record.inputs.push_back({arg.tensor, arg.host});
      bring(index, record, arg.tensor, arg.host ? cpu::device : spec.device);
    }
    for (const Arg& arg : spec.outputs) {
      record.outputs.push_back({arg.tensor, arg.host});
      valid(arg.tensor) = {arg.host ? cpu::device : spec.device};
    }
    run(record, spec.time);
    record.end = now_;
    trace_.ops.push_back(record);
  }

  // The program reads a value; no op is recorded for it.
  void fetch(int tensor, int line) {
    if (valid(tensor).contains(cpu::device)) return;
    trace::OpRecord reader{.name = string("fetch"), .site = site(line)};
    copy(-1, reader, tensor, cpu::device, trace::CopyCause::fetch);
  }

  void begin_scope(const std::string& name) { open_.push_back({string(name), now_}); }
  void end_scope() {
    const auto [name, begin] = open_.back();
    open_.pop_back();
    trace_.scopes.push_back(
        {.name = name, .depth = static_cast<std::int32_t>(open_.size()), .begin = begin, .end = now_});
  }

  void idle(Nanoseconds time) { now_ += time; }

  trace::Trace build() {
    trace_.begin = 0ns;
    trace_.end = std::max(now_, device_tail_);
    return trace_;
  }

 private:
  trace::StringIndex string(const std::string& text) {
    const auto found = std::ranges::find(trace_.strings, text);
    if (found == trace_.strings.end())
      return trace_.strings.push_back(text), static_cast<int>(trace_.strings.size()) - 1;
    return static_cast<trace::StringIndex>(found - trace_.strings.begin());
  }
  trace::StringIndex scope_of(const std::string& text) { return text.empty() ? -1 : string(text); }
  trace::SiteIndex site(int line) {
    const auto found = std::ranges::find(trace_.sites, line, &trace::Site::line);
    if (found != trace_.sites.end()) return static_cast<trace::SiteIndex>(found - trace_.sites.begin());
    trace_.sites.push_back({.file = "src/main.cpp", .line = line, .function = "int main(int, char**)"});
    return static_cast<trace::SiteIndex>(trace_.sites.size()) - 1;
  }
  std::set<Device>& valid(int tensor) { return valid_[static_cast<std::size_t>(tensor)]; }

  void run(trace::OpRecord& record, Nanoseconds time) {
    if (record.device.is_cpu()) {
      now_ += time;
      return;
    }
    now_ += kLaunch;
    record.correlation = ++correlation_;
    const Nanoseconds begin = std::max(now_, device_tail_);
    device_tail_ = begin + time;
    trace_.work.push_back(
        {.correlation = record.correlation, .device = record.device, .begin = begin, .end = device_tail_});
  }

  void bring(trace::OpIndex index, const trace::OpRecord& op, int tensor, Device where) {
    if (tensor < 0 || valid(tensor).contains(where)) return;
    copy(index, op, tensor, where, trace::CopyCause::implicit);
  }

  void copy(trace::OpIndex index, const trace::OpRecord& op, int tensor, Device to, trace::CopyCause cause) {
    const Bytes size = trace_.tensors[static_cast<std::size_t>(tensor)].size;
    const Device from = *valid(tensor).begin();
    const bool blocks = cause == trace::CopyCause::fetch || trace_.copy_mode == "synchronous" || to.is_cpu();
    const Nanoseconds begin = std::max(now_, device_tail_);
    const Nanoseconds end = begin + kCopyLatency + Nanoseconds(size.count / kBytesPerNanosecond);
    trace::CopyRecord record{.op = index,
                             .op_name = op.name,
                             .site = op.site,
                             .scope = op.scope,
                             .tensor = tensor,
                             .size = size,
                             .from = from,
                             .to = to,
                             .synchronous = blocks && cause == trace::CopyCause::implicit,
                             .cause = cause,
                             .placement = op.cause,
                             .thread = op.thread,
                             .correlation = ++correlation_,
                             .begin = now_};
    (from.is_cpu() ? record.from_memory : record.to_memory) = trace::Memory::pageable;
    now_ = blocks ? end : now_ + 2us;
    record.end = now_;
    if (blocks) {
      record.drain = begin - record.begin;
      record.transfer = end - begin;
    }
    device_tail_ = std::max(device_tail_, end);
    trace_.work.push_back({.correlation = correlation_,
                           .kind = trace::WorkKind::copy,
                           .engine = to.is_cpu() ? trace::Engine::device_to_host : trace::Engine::host_to_device,
                           .device = to.is_cpu() ? from : to,
                           .stream = to.is_cpu() ? 2 : 1,
                           .begin = begin,
                           .end = end});
    trace_.copies.push_back(record);
    valid(tensor).insert(to);
  }

  trace::Trace trace_;
  std::vector<std::set<Device>> valid_;
  std::vector<std::pair<trace::StringIndex, Nanoseconds>> open_;
  Nanoseconds now_{}, device_tail_{};
  std::uint64_t correlation_ = 0;
};

// Ten times: shape → slice on the GPU → crop, which reads slice's result in host memory; the result is fetched.
inline trace::Trace shape_slice_crop(const std::string& copy_mode = "synchronous", Device slice_device = gpu::device) {
  TraceBuilder builder(copy_mode);
  const int image = builder.tensor("image", Bytes{40'000}, gpu::device);
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::string(1, '_').append(std::to_string(i));
    const int shape = builder.tensor("shape" + n, Bytes{16});
    const int bounds = builder.tensor("slice" + n, Bytes{8});
    const int result = builder.tensor("crop" + n, Bytes{4'000});
    builder.op({.name = "shape", .line = 30, .inputs = {image}, .outputs = {host(shape)}, .time = 1us});
    builder.op({.name = "slice",
                .line = 31,
                .device = slice_device,
                .inputs = {shape},
                .outputs = {bounds},
                .time = 3us,
                .bytes = 24});
    builder.op({.name = "crop", .line = 32, .inputs = {image, host(bounds)}, .outputs = {result}, .bytes = 8'000});
    builder.fetch(result, 33);
  }
  return builder.build();
}

}  // namespace ferry::testing
