#include "src/runtime/builtin_backends.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "src/backends/cpu/cpu_driver.h"
#include "src/backends/sim/sim_driver.h"
#include "src/base/check.h"
#include "src/device/device_spec.h"
#include "src/device/plugin.h"
#include "src/device/virtual_clock.h"

namespace ferry {
namespace {

constexpr std::string_view kDefaultSimulated = "rtx2080ti";
constexpr std::string_view kLegal =
    "legal are cpu, gpu, cuda, cuda:N, sim:PRESET, sim:FILE.json, plugin:FILE, or a comma-separated list of GPUs";

// The CUDA plug-in beside libferry.so, or where FERRY_CUDA_PLUGIN says.
std::string cuda_plugin_path() {
  if (const char* path = std::getenv("FERRY_CUDA_PLUGIN")) return path;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&make_backends), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "libferry_cuda.so";
}

// The plug-in when it loads and finds devices; else null, with the reason.
std::shared_ptr<Plugin> find_cuda(std::string& reason) {
  const std::string path = cuda_plugin_path();
  if (path.empty() || !std::filesystem::exists(path)) {
    reason = "the CUDA plug-in is not installed";
    return nullptr;
  }
  try {
    std::shared_ptr<Plugin> plugin = Plugin::load(path);
    if (plugin->device_count(&reason) > 0) return plugin;
  } catch (const Error& error) {
    reason = error.what();
  }
  return nullptr;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string requested_devices(const RuntimeOptions& options) {
  if (!options.device.empty()) return options.device;
  const char* environment = std::getenv("FERRY_DEVICE");
  return environment != nullptr && *environment != '\0' ? environment : "gpu";
}

// Makes the GPUs of one runtime; they share a clock where they are simulated.
class GpuFactory {
 public:
  GpuFactory(const RuntimeOptions& options, std::shared_ptr<OrderingChecker> checker)
      : options_(options), checker_(std::move(checker)) {}

  std::unique_ptr<Driver> make(const std::string& text, Device as) {
    if (text == "gpu") return make_default(as);
    if (text == "cuda") return make_cuda(0, as);
    if (text.starts_with("cuda:")) return make_cuda(parse_index(text.substr(5), text), as);
    if (text.starts_with("sim:")) return make_simulated(text.substr(4), as);
    if (text.starts_with("plugin:")) return Plugin::load(text.substr(7))->make_driver(0, as);
    throw InvalidArgument(fmt::format("unknown device '{}'; {}", text, kLegal));
  }

  // Null unless a GPU is simulated.
  const std::shared_ptr<VirtualClock>& clock() const { return clock_; }

 private:
  std::unique_ptr<Driver> make_default(Device as) {
    std::string reason;
    if (const auto cuda = find_cuda(reason)) return cuda->make_driver(0, as);
    return make_simulated(std::string(kDefaultSimulated), as);
  }

  std::unique_ptr<Driver> make_cuda(int index, Device as) {
    std::string reason;
    const auto cuda = find_cuda(reason);
    FERRY_CHECK(cuda != nullptr, InvalidArgument, "no CUDA device: {}; use sim:{} for a simulated GPU", reason,
                kDefaultSimulated);
    const int count = cuda->device_count(&reason);
    FERRY_CHECK(index < count, InvalidArgument, "there is no cuda:{}; this machine has {} CUDA device{}", index, count,
                count == 1 ? "" : "s");
    return cuda->make_driver(index, as);
  }

  std::unique_ptr<Driver> make_simulated(const std::string& spec, Device as) {
    FERRY_CHECK(spec != "host", InvalidArgument,
                "'sim:host' is no GPU: 'host' models the CPU; `ferry devices` lists the GPUs that can be simulated");
    if (clock_ == nullptr) clock_ = std::make_shared<VirtualClock>();
    return make_sim_driver(SimOptions{.spec = load_device_spec(spec),
                                      .device = as,
                                      .capacity = options_.device_memory,
                                      .values = options_.values,
                                      .order = {options_.order.adversarial, options_.order.seed},
                                      .clock = clock_,
                                      .checker = checker_,
                                      .kernels = cpu_kernels()});
  }

  static int parse_index(const std::string& digits, const std::string& text) {
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    FERRY_CHECK(error == std::errc{} && end == digits.data() + digits.size() && index >= 0, InvalidArgument,
                "unknown device '{}'; {}", text, kLegal);
    return index;
  }

  const RuntimeOptions& options_;
  std::shared_ptr<OrderingChecker> checker_;
  std::shared_ptr<VirtualClock> clock_;
};

}  // namespace

Backends make_backends(const RuntimeOptions& options, const std::shared_ptr<OrderingChecker>& checker) {
  Backends backends;
  GpuFactory factory(options, checker);
  const std::string text = requested_devices(options);
  if (text != "cpu") {
    bool real = false;
    const std::vector<std::string> parts = split_list(text);
    constexpr int kMostGpus = std::numeric_limits<decltype(Device::index)>::max();
    FERRY_CHECK(parts.size() <= kMostGpus, InvalidArgument, "{} devices are listed; a runtime has at most {} GPUs",
                parts.size(), kMostGpus);
    for (const std::string& part : parts) {
      const Device as{DeviceType::gpu, static_cast<std::int8_t>(backends.gpus.size())};
      backends.gpus.push_back(factory.make(part, as));
      real = real || !backends.gpus.back()->info().simulated;
    }
    FERRY_CHECK(!real || factory.clock() == nullptr, InvalidArgument,
                "'{}' mixes real and simulated GPUs, whose times cannot be compared; name one kind", text);
  }
  CpuOptions cpu{.values = options.values,
                 .clock = factory.clock(),
                 .model = load_device_spec("host"),
                 .measured_time = options.measured_host_time,
                 .checker = checker};
  backends.cpu = make_cpu_driver(std::move(cpu));
  return backends;
}

std::vector<AvailableDevice> available_devices() {
  std::vector<AvailableDevice> devices;
  const auto cpu = make_cpu_driver(CpuOptions{});
  devices.push_back({"cpu", cpu->info().description, "", cpu->info().capacity});
  std::string reason;
  if (const auto cuda = find_cuda(reason)) {
    for (int i = 0; i < cuda->device_count(&reason); ++i) {
      const auto driver = cuda->make_driver(i, {DeviceType::gpu, static_cast<std::int8_t>(i)});
      devices.push_back({driver->info().name, driver->info().description, "", driver->info().capacity});
    }
  } else {
    devices.push_back({"cuda", "NVIDIA GPUs", reason, Bytes{}, false});
  }
  for (const std::string& name : device_spec_names()) {
    if (name == "host") continue;
    const DeviceSpec spec = load_device_spec(name);
    const bool is_default = reason.empty() ? false : name == kDefaultSimulated;
    devices.push_back(
        {"sim:" + name, spec.description + ", simulated", is_default ? "what gpu means here" : "", spec.memory});
  }
  return devices;
}

}  // namespace ferry
