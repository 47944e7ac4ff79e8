// What every example's main does alike: common options, the place it runs on, figures as JSON, errors as one line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ferry/runtime.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace program {

struct CommonOptions {
  std::string device;  // as RuntimeOptions::device
  std::string json;    // file for the figures; "": none
  std::uint64_t seed = 1;
  bool quiet = false;
};

// --device, --json, --seed and --quiet.
void add_common_options(CLI::App& app, CommonOptions& options);

// Parses the command line, calls `body` and returns its exit code; after an error prints one line to stderr and
// returns 2 for bad usage or input and 1 for anything else.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

// "sim:rtx2080ti, virtual time": where the runtime's ops run and what its clock shows.
std::string place_of(const ferry::Runtime& runtime);

// {"device", "simulated", "time": "virtual" or "wall", "device_peak_bytes", "time_ms"}
nlohmann::ordered_json runtime_figures(const ferry::Runtime& runtime);

// Writes `figures` to `path`, unless that is empty. Throws: ferry::InvalidArgument when the file cannot be written.
void write_figures(const std::string& path, const nlohmann::ordered_json& figures);

}  // namespace program
