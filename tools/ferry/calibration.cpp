#include "tools/ferry/calibration.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <ferry/ferry.h>
#include <ferry/no_grad.h>
#include "profiler/recorder.h"
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/op_list.h"
#include "src/ops/schemas.h"

namespace ferry::cli {
namespace {

constexpr int kRepeats = 5, kLaunches = 200;
constexpr Bytes kSmallCopy = kKiB * 4, kLargeCopy = kMiB * 64;

double seconds(Nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

// Device times of work, by the correlations that it was given.
class Times final : public WorkObserver {
 public:
  explicit Times(Driver& driver) : driver_(driver) { driver_.set_work_observer(this); }
  ~Times() override { driver_.set_work_observer(nullptr); }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void on_work(const trace::WorkRecord& record) override { durations_.push_back(record.end - record.begin); }
  Nanoseconds shortest() {
    driver_.synchronize();
    driver_.flush_work_records();
    FERRY_CHECK(!durations_.empty(), InvalidArgument, "{}: the driver reports no times of work", driver_.info().name);
    return *std::min_element(durations_.begin(), durations_.end());
  }

 private:
  Driver& driver_;
  std::vector<Nanoseconds> durations_;
};

// Memory of a driver for the time of a measurement.
class Block {
 public:
  enum class Kind { device, pinned };
  Block(Driver& driver, Bytes size, Kind kind) : driver_(driver), size_(size), kind_(kind) {
    data_ = kind == Kind::device ? driver.allocate(size) : driver.allocate_pinned(size);
    FERRY_CHECK(data_ != nullptr, InvalidArgument, "calibrate: {} has no {} left to measure with", driver.info().name,
                to_string(size));
  }
  ~Block() { kind_ == Kind::device ? driver_.free(data_, size_) : driver_.free_pinned(data_, size_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }

 private:
  Driver& driver_;
  Bytes size_;
  Kind kind_;
  void* data_;
};

// --- launches and allocations ---

class TinyKernel {
 public:
  explicit TinyKernel(DeviceContext& gpu)
      : gpu_(gpu), memory_(*gpu.driver, kKiB, Block::Kind::device), kernel_(kernel_of(gpu)) {
    view_ = {.data = memory_.data(), .dtype = DType::f32, .given = true, .shape = {1}, .strides = {1}};
  }
  void launch(std::uint64_t correlation) {
    gpu_.driver->launch({.kernel = kernel_,
                         .context = {"fill_", {&view_, 1}, {&view_, 1}, attributes_, nullptr},
                         .cost = {.op_class = OpClass::fill, .flops = 0, .bytes = 4},
                         .where = std::source_location::current(),
                         .correlation = correlation},
                        gpu_.compute);
  }

 private:
  static Kernel kernel_of(const DeviceContext& gpu) {
    return gpu.kernels[static_cast<std::size_t>(ops::kFillInPlace.slot)];
  }
  DeviceContext& gpu_;
  Block memory_;
  Kernel kernel_;
  TensorView view_;
  Attributes attributes_ = ops::FillAttributes{};
};

void measure_launches(DeviceContext& gpu, DeviceSpec& spec) {
  TinyKernel kernel(gpu);
  kernel.launch(0);
  Nanoseconds best = Nanoseconds::max();
  for (int round = 0; round < kRepeats; ++round) {
    gpu.driver->synchronize();
    const Nanoseconds begin = gpu.driver->clock().now();
    for (int i = 0; i < kLaunches; ++i) kernel.launch(0);
    best = std::min(best, (gpu.driver->clock().now() - begin) / kLaunches);
  }
  spec.launch_cost = best;
  Times times(*gpu.driver);
  for (int i = 1; i <= kLaunches; ++i) kernel.launch(static_cast<std::uint64_t>(i));
  spec.kernel_cost = times.shortest();
}

void measure_allocations(DeviceContext& gpu, DeviceSpec& spec) {
  std::vector<Nanoseconds> times;
  for (int i = 0; i < 4 * kRepeats; ++i) {
    const Nanoseconds begin = gpu.driver->clock().now();
    const Block block(*gpu.driver, kLargeCopy, Block::Kind::device);
    times.push_back(gpu.driver->clock().now() - begin);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  spec.allocation_cost = times[times.size() / 2];
}

// --- copies ---

struct CopyEnds {
  void* destination;
  const void* source;
  CopyDirection direction;
};

Nanoseconds pinned_copy_time(DeviceContext& gpu, const CopyEnds& ends, Bytes size) {
  Times times(*gpu.driver);
  for (int i = 1; i <= kRepeats; ++i) {
    gpu.driver->copy({ends.destination, ends.source, size, ends.direction, HostMemory::pinned, "calibrate",
                      static_cast<std::uint64_t>(i)},
                     gpu.compute);
  }
  return times.shortest();
}

LinkSpec measure_link(DeviceContext& gpu, const CopyEnds& ends) {
  const Nanoseconds small = pinned_copy_time(gpu, ends, kSmallCopy), large = pinned_copy_time(gpu, ends, kLargeCopy);
  LinkSpec link;
  link.bytes_per_second =
      static_cast<double>((kLargeCopy - kSmallCopy).count) / std::max(1e-9, seconds(large) - seconds(small));
  const double latency = seconds(small) - static_cast<double>(kSmallCopy.count) / link.bytes_per_second;
  link.latency = Nanoseconds(std::max<std::int64_t>(1, std::llround(latency * 1e9)));
  return link;
}

// Share of the link's bandwidth that a copy from or to pageable memory reaches, until the host may go on.
double pageable_share(DeviceContext& gpu, const CopyEnds& ends, const LinkSpec& link) {
  Nanoseconds best = Nanoseconds::max();
  for (int i = 0; i < kRepeats; ++i) {
    gpu.driver->synchronize();
    const Nanoseconds begin = gpu.driver->clock().now();
    gpu.driver->copy({ends.destination, ends.source, kLargeCopy, ends.direction, HostMemory::pageable, "calibrate"},
                     gpu.compute);
    gpu.driver->synchronize_stream(gpu.compute);
    best = std::min(best, gpu.driver->clock().now() - begin);
  }
  const double rate = static_cast<double>(kLargeCopy.count) / std::max(1e-9, seconds(best - link.latency));
  return std::min(1.0, rate / link.bytes_per_second);
}

void measure_copies(DeviceContext& gpu, DeviceSpec& spec) {
  const Block device(*gpu.driver, kLargeCopy, Block::Kind::device);
  const Block pinned(*gpu.driver, kLargeCopy, Block::Kind::pinned);
  std::vector<std::byte> pageable(static_cast<std::size_t>(kLargeCopy.count));
  spec.host_to_device = measure_link(gpu, {device.data(), pinned.data(), CopyDirection::host_to_device});
  spec.device_to_host = measure_link(gpu, {pinned.data(), device.data(), CopyDirection::device_to_host});
  const double in =
      pageable_share(gpu, {device.data(), pageable.data(), CopyDirection::host_to_device}, spec.host_to_device);
  const double out =
      pageable_share(gpu, {pageable.data(), device.data(), CopyDirection::device_to_host}, spec.device_to_host);
  spec.pageable_factor = (in + out) / 2;
}

// --- classes of ops ---

// Large instances of ops of each class, small enough for `memory`.
std::vector<std::function<void()>> sample_ops(Bytes memory) {
  const bool roomy = memory > kGiB * 4;
  const std::int64_t side = roomy ? 4096 : 1024, elements = roomy ? 1 << 26 : 1 << 22, images = roomy ? 32 : 4;
  const Tensor square = zeros({side, side}), x = zeros({elements}), image = zeros({images, 64, 112, 112});
  const Tensor weight = zeros({64, 64, 3, 3}), table = zeros({1 << 16, 256}), transposable = zeros({side, side});
  const Tensor ids = full({elements / 256}, 7, DType::i64);
  return {[=] { const Tensor y = matmul(square, square); },
          [=] {
            const Tensor y = conv2d(image, weight, {}, {.padding = {1, 1}});
          },
          [=] { const Tensor y = x + x; },
          [=] { const Tensor y = sum(x); },
          [=] { const Tensor y = softmax(square, 1); },
          [=] { const Tensor y = layer_norm(square, {side}); },
          [=] {
            const Tensor y = max_pool2d(image, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
          },
          [=] { const Tensor y = embedding(table, ids); },
          [=] { const Tensor y = full({elements}, 1); },
          [=] { const Tensor y = transpose(transposable, 0, 1).contiguous(); }};
}

trace::Trace record_ops(RuntimeCore& core, DeviceContext& gpu) {
  const NoGrad no_grad;
  const auto ops = sample_ops(gpu.driver->info().capacity);
  for (const auto& op : ops) op();  // libraries and caches are ready
  core.synchronize();
  profiler::Recorder recorder;
  core.set_recorder(&recorder);
  for (int i = 0; i < kRepeats; ++i) {
    for (const auto& op : ops) op();
  }
  core.synchronize();
  gpu.driver->flush_work_records();
  core.set_recorder(nullptr);
  return recorder.finish();
}

void measure_classes(RuntimeCore& core, DeviceContext& gpu, DeviceSpec& spec, std::vector<OpClass>& measured) {
  const trace::Trace trace = record_ops(core, gpu);
  std::map<std::uint64_t, Nanoseconds> durations;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::kernel && work.device.is_gpu()) {
      durations[work.correlation] = work.end - work.begin;
    }
  }
  std::map<OpClass, double> best;
  for (const trace::OpRecord& op : trace.ops) {
    const auto duration = durations.find(op.correlation);
    const ops::OpSchema* const schema = ops::find_op(trace.string(op.name));
    if (duration == durations.end() || schema == nullptr || duration->second <= spec.kernel_cost) continue;
    const double roof = std::max(op.flops / spec.flops_per_second[static_cast<std::size_t>(DType::f32)],
                                 op.bytes / spec.bytes_per_second);
    double& reached = best[schema->op_class];
    reached = std::max(reached, std::min(1.0, roof / seconds(duration->second - spec.kernel_cost)));
  }
  for (const auto& [op_class, reached] : best) {
    spec.efficiency[static_cast<std::size_t>(op_class)] = reached;
    measured.push_back(op_class);
  }
}

std::string lower_letters(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

// Sources of `fields`, or of all that begin with one of them, are no longer those of the base.
void forget_sources(DeviceSpec& spec, const std::vector<std::string>& fields) {
  std::erase_if(spec.sources, [&](const auto& source) {
    return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
      return source.first == field || source.first.starts_with(field + ".");
    });
  });
}

}  // namespace

DeviceSpec calibrate(RuntimeCore& core, const DeviceSpec& base) {
  FERRY_CHECK(core.gpu_count() > 0, InvalidArgument, "calibrate: there is no GPU; {}", core.device_names());
  DeviceContext& gpu = core.context(gpu::device);
  DeviceSpec spec = base;
  measure_launches(gpu, spec);
  measure_allocations(gpu, spec);
  measure_copies(gpu, spec);
  std::vector<OpClass> classes;
  measure_classes(core, gpu, spec, classes);
  std::vector<std::string> fields = {"kernel_cost",    "launch_cost",    "allocation_cost",
                                     "host_to_device", "device_to_host", "pageable_factor"};
  for (const OpClass op_class : classes) fields.push_back(fmt::format("efficiency.{}", name_of(op_class)));
  forget_sources(spec, fields);
  return spec;
}

DeviceSpec base_spec_of(const DriverInfo& info) {
  constexpr std::string_view kSimulated = "sim:";
  if (info.simulated) return load_device_spec(info.name.substr(kSimulated.size()));
  const std::string description = lower_letters(info.description);
  std::vector<DeviceSpec> found;
  for (const std::string& name : device_spec_names()) {
    if (name != "host" && description.find(lower_letters(name.substr(0, name.find('-')))) != std::string::npos) {
      found.push_back(load_device_spec(name));
    }
  }
  FERRY_CHECK(!found.empty(), InvalidArgument,
              "no preset describes {} ({}); name the nearest one, or a spec file, with --base: {}", info.name,
              info.description, fmt::join(device_spec_names(), ", "));
  return *std::min_element(found.begin(), found.end(), [&](const DeviceSpec& a, const DeviceSpec& b) {
    return std::abs(a.memory.count - info.capacity.count) < std::abs(b.memory.count - info.capacity.count);
  });
}

nlohmann::ordered_json spec_json(const DeviceSpec& spec, const std::string& device) {
  const std::map<std::string, std::string> sources(spec.sources.begin(), spec.sources.end());
  const auto figure = [&](const std::string& field, const char* unit, double value) {
    const auto source = sources.find(field);
    return nlohmann::ordered_json{
        {unit, value},
        {"source", source != sources.end() ? source->second : fmt::format("ferry calibrate on {}", device)}};
  };
  const auto whole = [&](const std::string& field, const char* unit, std::int64_t value) {
    nlohmann::ordered_json result = figure(field, unit, 0);
    result[unit] = std::max<std::int64_t>(1, value);
    return result;
  };
  const auto link = [&](const std::string& field, const LinkSpec& figures) {
    return nlohmann::ordered_json{
        {"bandwidth", figure(field + ".bandwidth", "bytes_per_second", figures.bytes_per_second)},
        {"latency", whole(field + ".latency", "nanoseconds", figures.latency.count())}};
  };
  nlohmann::ordered_json json{{"name", spec.name}, {"description", spec.description}};
  json["memory"] = whole("memory", "bytes", spec.memory.count);
  json["bandwidth"] = figure("bandwidth", "bytes_per_second", spec.bytes_per_second);
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string name(name_of(static_cast<DType>(i)));
    json["throughput"][name] = figure("throughput." + name, "operations_per_second", spec.flops_per_second[i]);
  }
  for (int i = 0; i < kOpClassCount; ++i) {
    const std::string name(name_of(static_cast<OpClass>(i)));
    json["efficiency"][name] = figure("efficiency." + name, "fraction", spec.efficiency[i]);
  }
  json["kernel_cost"] = whole("kernel_cost", "nanoseconds", spec.kernel_cost.count());
  json["launch_cost"] = whole("launch_cost", "nanoseconds", spec.launch_cost.count());
  json["allocation_cost"] = whole("allocation_cost", "nanoseconds", spec.allocation_cost.count());
  json["host_to_device"] = link("host_to_device", spec.host_to_device);
  json["device_to_host"] = link("device_to_host", spec.device_to_host);
  json["pageable_factor"] = figure("pageable_factor", "fraction", spec.pageable_factor);
  return json;
}

}  // namespace ferry::cli
