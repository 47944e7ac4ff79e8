// Finds the synchronous copies of a small program, and removes them with one DeviceGuard.
//
// crop() reads its shape argument in host memory. When slice() makes that argument on the GPU, its input goes there
// and its result comes back, and both copies hold the host up. The Profiling Report names slice, its line and the
// change.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include <ferry/ferry.h>

#include "tools/common/program.h"

namespace {

using nlohmann::json;

constexpr int kIterations = 10;

enum class SliceOn { gpu, cpu };

// One iteration as a user would write it; the report points at these lines.
void iterate(SliceOn where) {
  const ferry::Tensor image = ferry::full({1, 3, 8, 8}, 0.5);
  const ferry::Tensor smaller = ferry::full({1, 3, 5, 5}, 0.5);
  const ferry::Tensor extents = ferry::shape(smaller);
  ferry::Tensor target;
  if (where == SliceOn::cpu) {
    const ferry::DeviceGuard<ferry::cpu> guard;
    target = ferry::slice(extents, {0}, {0}, {4});
  } else {
    target = ferry::slice(extents, {0}, {0}, {4});
  }
  const ferry::Tensor cropped = ferry::crop(image, target);
  const std::vector<float> result = cropped.to_vector<float>();
  if (result.size() != 3 * 5 * 5 || result.front() != 0.5f) throw ferry::Error("the cropped image has wrong values");
}

// The figures of one run that this program promises, from the report's JSON.
json figures_of(const json& report) {
  json figures = {{"memcpy", report["memcpy"]["calls"]},
                  {"async", report["memcpy"]["async"]["calls"]},
                  {"sync", report["memcpy"]["sync"]["calls"]},
                  {"total_ms", report["total_ns"].get<double>() / 1e6},
                  {"copies", json::array()}};
  for (const json& event : report["events"]) {
    for (const json& copy : event["copies"]) {
      figures["copies"].push_back({{"op", event["name"]}, {"name", copy["name"]}, {"calls", copy["calls"]}});
    }
  }
  return figures;
}

json run(const std::string& device, ferry::CopyMode mode, SliceOn where, const std::string& title) {
  const ferry::Runtime runtime({.device = device, .copy_mode = mode});
  ferry::Profiler profiler;
  for (int i = 0; i < kIterations; ++i) iterate(where);
  fmt::print("\n{}\n\n{}\n", title, profiler.report());
  return figures_of(json::parse(profiler.report_json()));
}

json compare(const std::string& device, ferry::CopyMode mode, const std::string& name) {
  return {
      {"before", run(device, mode, SliceOn::gpu, fmt::format("### {} copies, slice on the GPU", name))},
      {"after", run(device, mode, SliceOn::cpu, fmt::format("### {} copies, slice inside DeviceGuard<cpu>", name))}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Finds the synchronous copies of a small program, and removes them with one DeviceGuard.",
               "sync_copies");
  std::string device, json_file;
  app.add_option("--device", device, "where to run: gpu, sim:PRESET, cuda:N (default: gpu)");
  app.add_option("--json", json_file, "write the figures to FILE")->type_name("FILE");
  return program::run_program(app, argc, argv, [&] {
    program::write_figures(json_file, {{"synchronous", compare(device, ferry::CopyMode::synchronous, "synchronous")},
                                       {"staged", compare(device, ferry::CopyMode::staged, "staged")}});
    return 0;
  });
}
