// Finds the synchronous copies of a small program, and removes them with one DeviceGuard.
//
// crop() reads its shape argument in host memory. When slice() makes that argument on the GPU, its input goes there
// and its result comes back, and both copies hold the host up. The Profiling Report names slice, its line and the
// change.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include <ferry/ferry.h>

#include "tools/common/output_file.h"
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
                  {"advised_ms", 0.0},
                  {"copies", json::array()}};
  // What the report's first advice promises.
  if (!report["findings"].empty() && !report["findings"][0]["advice"].empty())
    figures["advised_ms"] = report["findings"][0]["advice"][0]["saved_ns"].get<double>() / 1e6;
  for (const json& event : report["events"]) {
    for (const json& copy : event["copies"]) {
      figures["copies"].push_back({{"op", event["name"]}, {"name", copy["name"]}, {"calls", copy["calls"]}});
    }
  }
  return figures;
}

struct Settings {
  std::string device, json_file, trace_file, advise_file;
};

// Where the advisor would have what run, of the whole program.
json advise(ferry::Profiler& profiler, const std::string& file) {
  const ferry::PlacementAdvice advice = profiler.advise_placement();
  fmt::print("{}", advice.text);
  if (!file.empty()) std::ofstream(file) << advice.file;
  return {{"text", advice.text},
          {"rules", json::parse(advice.file)["rules"]},
          {"predicted_ms", static_cast<double>(advice.predicted.count()) / 1e6}};
}

json run(const Settings& settings, ferry::CopyMode mode, SliceOn where, const std::string& title) {
  const ferry::Runtime runtime({.device = settings.device, .copy_mode = mode});
  ferry::Profiler profiler;
  for (int i = 0; i < kIterations; ++i) iterate(where);
  fmt::print("\n{}\n\n{}\n", title, profiler.report());
  json figures = figures_of(json::parse(profiler.report_json()));
  if (where == SliceOn::cpu) return figures;
  const bool first = mode == ferry::CopyMode::synchronous;
  figures["advice"] = advise(profiler, first ? settings.advise_file : "");
  if (first && !settings.trace_file.empty()) {
    std::ofstream file(settings.trace_file);
    profiler.write_trace(file);
  }
  return figures;
}

json compare(const Settings& settings, ferry::CopyMode mode, const std::string& name) {
  return {
      {"before", run(settings, mode, SliceOn::gpu, fmt::format("### {} copies, slice on the GPU", name))},
      {"after", run(settings, mode, SliceOn::cpu, fmt::format("### {} copies, slice inside DeviceGuard<cpu>", name))}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Finds the synchronous copies of a small program, and removes them with one DeviceGuard.",
               "sync_copies");
  Settings settings;
  app.add_option("--device", settings.device, "where to run: gpu, sim:PRESET, cuda:N (default: gpu)");
  app.add_option("--json", settings.json_file, "write the figures to FILE")
      ->type_name("FILE")
      ->check(program::writable_file());
  app.add_option("--trace", settings.trace_file, "save the trace of the first report to FILE, for `ferry report`")
      ->type_name("FILE")
      ->check(program::writable_file());
  app.add_option("--advise", settings.advise_file,
                 "write the advice for synchronous copies to FILE, for FERRY_PLACEMENT=FILE")
      ->type_name("FILE")
      ->check(program::writable_file());
  return program::run_program(app, argc, argv, [&] {
    program::write_figures(settings.json_file,
                           {{"synchronous", compare(settings, ferry::CopyMode::synchronous, "synchronous")},
                            {"staged", compare(settings, ferry::CopyMode::staged, "staged")}});
    return 0;
  });
}
