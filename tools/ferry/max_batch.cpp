// ferry max-batch: the largest batch that a model trains with on a device.
#include <ferry/max_batch.h>
#include <ferry/swap.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/check.h"
#include "tools/ferry/command.h"
#include "tools/ferry/training_job.h"

namespace ferry::cli {
namespace {

// The first two make gradients and state, and are recorded; those after them are planned.
constexpr int kStepsUntilPlanned = 4;

struct Settings {
  JobOptions job;
  std::string budget, method = "none", json;
};

bool evicts(std::string_view method) { return method == "recompute" || method == "swap" || method == "hybrid"; }

MemoryBudgetOptions budget_options(const Settings& settings) {
  MemoryBudgetOptions options{.size = settings.budget.empty() ? "100%" : settings.budget};
  if (settings.method == "recompute") {
    options.methods = EvictionMethods::recompute;
    options.policy = "dtr";
  } else if (settings.method == "swap") {
    options.methods = EvictionMethods::swap;
  }
  return options;
}

// Timing only on a simulated GPU: nothing is computed, no memory needed. Anywhere else steps run for real.
RuntimeOptions runtime_options(const Settings& settings) {
  RuntimeOptions options{.device = settings.job.device, .seed = settings.job.seed};
  if (!settings.budget.empty() && !evicts(settings.method)) options.device_memory = parse_bytes(settings.budget);
  const Runtime probe(options);
  const bool simulated = probe.devices().back().simulated;
  FERRY_CHECK(settings.budget.empty() || simulated || evicts(settings.method), InvalidArgument,
              "max-batch: with --method {} --budget limits a simulated GPU's memory; {} is none", settings.method,
              probe.devices().back().name);
  options.values = !simulated;
  return options;
}

void print_head(const Settings& settings, const Runtime& runtime) {
  const DeviceDescription device = runtime.devices().back();
  fmt::print("Place: {}, {} time; {} of memory\n", device.name, runtime.virtual_time() ? "virtual" : "wall",
             to_string(device.capacity));
  fmt::print("Model: {}, optimizer {}, method {}\n\n", settings.job.model, settings.job.optimizer, settings.method);
  fmt::print("{:>8}  {:>12}  {:>12}  {:>12}  {:>12}  {:>11}\n", "batch", "peak", "ms a step", "ms a sample",
             "samples/s", "utilisation");
  std::fflush(stdout);
}

void print_try(const BatchTry& each, double flops, double peak) {
  if (!each.fits) {
    fmt::print("{:>8}  does not fit\n", each.batch);
    return;
  }
  const double seconds = std::chrono::duration<double>(each.step).count(), samples = static_cast<double>(each.batch);
  const std::string utilisation = peak > 0 ? fmt::format("{:.1f} %", 100 * flops * samples / seconds / peak) : "-";
  fmt::print("{:>8}  {:>12}  {:>12.3f}  {:>12.4f}  {:>12.1f}  {:>11}\n", each.batch, to_string(each.peak_reserved),
             1e3 * seconds, each.milliseconds_per_sample(), samples / seconds, utilisation);
}

void write_json(const std::string& path, const MaxBatch& found) {
  nlohmann::ordered_json tries = nlohmann::ordered_json::array();
  for (const BatchTry& each : found.tries) {
    nlohmann::ordered_json entry = {{"batch", each.batch}, {"fits", each.fits}};
    if (each.fits) {
      entry["peak_bytes"] = each.peak_reserved.count;
      entry["ms_per_sample"] = each.milliseconds_per_sample();
    }
    tries.push_back(entry);
  }
  nlohmann::ordered_json figures = {{"batch", found.batch}, {"peak_bytes", nullptr}, {"ms_per_sample", nullptr}};
  if (found.batch > 0) {
    figures["peak_bytes"] = found.best.peak_reserved.count;
    figures["ms_per_sample"] = found.best.milliseconds_per_sample();
  }
  figures["tries"] = tries;
  if (path == "-") {
    fmt::print("{}\n", figures.dump(2));
    return;
  }
  std::ofstream file(path);
  file << figures.dump(2) << '\n';
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

void run(Settings settings) {
  std::int64_t& segments = settings.job.shape.checkpoint_segments;
  if (settings.method == "checkpoint" && segments == 0) segments = models::kSquareRootSegments;
  if (segments != 0) settings.method = "checkpoint";
  Runtime runtime(runtime_options(settings));
  std::optional<MemoryBudget> budget;
  if (evicts(settings.method)) budget.emplace(runtime, budget_options(settings));
  TrainingJob job(settings.job);
  // With --json - the figures alone go to the standard output.
  const bool quiet = settings.json == "-";
  const double peak = peak_flops(runtime, settings.job.shape.dtype);
  const double flops = quiet || peak == 0 ? 0 : flops_of_a_sample(job);
  if (!quiet) print_head(settings, runtime);
  const MaxBatch found =
      find_max_batch(runtime, [&](std::int64_t batch) { job.step(job.model().random_batch(batch, settings.job.seed)); },
                     {.steps = budget ? kStepsUntilPlanned : 2,
                      .restore = [&] { job.optimizer().zero_grad(); },
                      .on_try =
                          [&](const BatchTry& each) {
                            if (!quiet) print_try(each, flops, peak);
                          }});
  FERRY_CHECK(found.batch > 0 || !settings.json.empty(), InvalidArgument, "max-batch: not even a batch of one fits: {}",
              found.tries.back().error);
  if (!quiet) {
    fmt::print("\nLargest batch: {}, peak {}, {:.4f} ms a sample\n", found.batch, to_string(found.best.peak_reserved),
               found.best.milliseconds_per_sample());
  }
  if (!settings.json.empty()) write_json(settings.json, found);
}

}  // namespace

void add_max_batch_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("max-batch", "Find the largest batch that a model trains with on a device");
  const auto settings = std::make_shared<Settings>();
  add_job_options(*command, settings->job);
  command->add_option("--budget", settings->budget, "Memory to train in, such as 5GiB (default: the card's)");
  command
      ->add_option("--method", settings->method,
                   "none; checkpoint: recompute blocks in backward, in as many segments as the root of their number; "
                   "recompute, swap, or hybrid (both): under a memory budget")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "checkpoint", "recompute", "swap", "hybrid"}));
  command->add_option("--json", settings->json, "Write the figures to FILE; -: to the standard output, alone")
      ->type_name("FILE");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
