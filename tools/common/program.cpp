#include "tools/common/program.h"

#include <cstdio>
#include <fstream>

#include <ferry/error.h>
#include <fmt/format.h>

#include "tools/common/output_file.h"

namespace program {

void add_common_options(CLI::App& app, CommonOptions& options) {
  app.add_option(
      "--device", options.device,
      "gpu, cpu, cuda:N, or a simulated GPU: sim:NAME or sim:FILE.json (default: a GPU, else sim:rtx2080ti)");
  app.add_option("--seed", options.seed, "Seed of everything random")->capture_default_str();
  app.add_option("--json", options.json, "Write the figures to FILE")->type_name("FILE")->check(writable_file());
  app.add_flag("--quiet", options.quiet, "No progress bar");
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  const auto fail = [&](const char* message, int code) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), message);
    return code;
  };
  try {
    app.parse(argc, argv);
    const int code = body();
    if (std::fflush(stdout) != 0) return fail("cannot write to standard output", 1);
    return code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ferry::InvalidArgument& error) {
    return fail(error.what(), 2);
  } catch (const ferry::ParseError& error) {
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

std::string place_of(const ferry::Runtime& runtime) {
  for (const ferry::DeviceDescription& device : runtime.devices()) {
    if (device.device != runtime.default_device()) continue;
    return fmt::format("{}, {} time", device.name, runtime.virtual_time() ? "virtual" : "wall");
  }
  return {};
}

nlohmann::ordered_json runtime_figures(const ferry::Runtime& runtime) {
  nlohmann::ordered_json figures;
  for (const ferry::DeviceDescription& device : runtime.devices()) {
    if (device.device != runtime.default_device()) continue;
    figures["device"] = device.name;
    figures["simulated"] = device.simulated;
  }
  figures["time"] = runtime.virtual_time() ? "virtual" : "wall";
  figures["device_peak_bytes"] = runtime.memory_stats(runtime.default_device()).peak_allocated.count;
  figures["time_ms"] = std::chrono::duration<double, std::milli>(runtime.now()).count();
  return figures;
}

void write_figures(const std::string& path, const nlohmann::ordered_json& figures) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << figures.dump(2) << '\n';
  if (!file.flush()) throw ferry::InvalidArgument(fmt::format("cannot write {}", path));
}

}  // namespace program
