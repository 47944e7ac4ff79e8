// ferry calibrate: measures a GPU and writes a device spec, by which it can be simulated anywhere.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "tools/ferry/calibration.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

struct Settings {
  std::string device, base, name, output;
};

void print_row(std::string_view name, double measured, double stated, std::string_view unit) {
  fmt::print("{:<24} {:>14.4g} {:>14.4g} {:>8.1f} %  {}\n", name, measured, stated, 100 * (measured / stated - 1),
             unit);
}

void print_table(const DeviceSpec& spec, const DeviceSpec& base) {
  fmt::print("{:<24} {:>14} {:>14} {:>10}\n", "Figure", "measured", "in " + base.name, "differs");
  const auto time = [](Nanoseconds value) { return static_cast<double>(value.count()); };
  print_row("kernel cost", time(spec.kernel_cost), time(base.kernel_cost), "ns");
  print_row("launch cost", time(spec.launch_cost), time(base.launch_cost), "ns");
  print_row("allocation cost", time(spec.allocation_cost), time(base.allocation_cost), "ns");
  print_row("host to device", spec.host_to_device.bytes_per_second, base.host_to_device.bytes_per_second, "bytes/s");
  print_row("  latency", time(spec.host_to_device.latency), time(base.host_to_device.latency), "ns");
  print_row("device to host", spec.device_to_host.bytes_per_second, base.device_to_host.bytes_per_second, "bytes/s");
  print_row("  latency", time(spec.device_to_host.latency), time(base.device_to_host.latency), "ns");
  print_row("pageable factor", spec.pageable_factor, base.pageable_factor, "of the link");
  for (int i = 0; i < kOpClassCount; ++i) {
    print_row(fmt::format("efficiency, {}", name_of(static_cast<OpClass>(i))), spec.efficiency[i], base.efficiency[i],
              "of the peak");
  }
}

void run(const Settings& settings) {
  // Simulated times do not depend on values; computing them would only take long.
  const std::string device = settings.device.empty() ? "gpu" : settings.device;
  Runtime runtime({.device = device, .values = !device.starts_with("sim:")});
  FERRY_CHECK(runtime.core()->gpu_count() > 0, InvalidArgument, "calibrate: '{}' is no GPU", device);
  const DriverInfo& info = runtime.core()->context(gpu::device).driver->info();
  const DeviceSpec base = settings.base.empty() ? base_spec_of(info) : load_device_spec(settings.base);
  fmt::print("Place: {}{}\n", info.name, info.simulated ? ", virtual time" : ", " + info.description);
  DeviceSpec spec = calibrate(*runtime.core(), base);
  if (!info.simulated) {
    spec.memory = info.capacity;
    spec.description = info.description;
  }
  if (!settings.name.empty()) spec.name = settings.name;
  print_table(spec, base);
  if (settings.output.empty()) return;
  std::ofstream file(settings.output, std::ios::binary);
  file << spec_json(spec, info.description).dump(2) << '\n';
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", settings.output);
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("calibrate", "Measure a GPU and write a device spec to simulate it by");
  const auto settings = std::make_shared<Settings>();
  command->add_option("--device", settings->device, "What to measure, as in docs/devices.md (default: gpu)");
  command->add_option("--base", settings->base, "Preset or spec file with the GPU's peaks (default: by its name)");
  command->add_option("--name", settings->name, "Name of the spec (default: the base's)");
  command->add_option("-o,--output", settings->output, "Write the spec")->type_name("FILE");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
