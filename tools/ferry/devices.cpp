// ferry devices: everything this machine could run on.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "src/runtime/builtin_backends.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

void print_table(const std::vector<AvailableDevice>& devices) {
  fmt::print("{:<18} {:>11}  {}\n", "Device", "Memory", "Description");
  for (const AvailableDevice& device : devices) {
    const std::string memory = device.usable ? to_string(device.memory) : "-";
    const std::string note = device.note.empty() ? "" : fmt::format(" ({})", device.note);
    fmt::print("{:<18} {:>11}  {}{}\n", device.name, memory, device.description, note);
  }
}

void print_json(const std::vector<AvailableDevice>& devices) {
  nlohmann::json list = nlohmann::json::array();
  for (const AvailableDevice& device : devices) {
    list.push_back({{"name", device.name},
                    {"description", device.description},
                    {"memory", device.memory.count},
                    {"usable", device.usable},
                    {"note", device.note}});
  }
  fmt::print("{}\n", nlohmann::json{{"devices", list}}.dump(2));
}

}  // namespace

void add_devices_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "List the CPU, the CUDA devices and the simulated GPUs");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print JSON");
  command->callback([as_json] {
    const std::vector<AvailableDevice> devices = available_devices();
    *as_json ? print_json(devices) : print_table(devices);
  });
}

}  // namespace ferry::cli
