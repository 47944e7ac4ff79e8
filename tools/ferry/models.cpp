// ferry models: the models that ferry brings, with what a sample of each costs.
#include <ferry/models.h>

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include <ferry/profiler.h>
#include <ferry/runtime.h>
#include "src/base/check.h"
#include "src/trace/trace_json.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

constexpr std::int64_t kSamples = 4;

struct Figures {
  double flops = 0;        // of forward, a sample; a multiply-add counts two
  double activations = 0;  // bytes that forward leaves for backward, a sample
};

// Forward without values on a simulated GPU with room for everything.
Figures figures_of(const models::Entry& entry) {
  Runtime runtime({.device = "sim:h200", .device_memory = kGiB * 1024, .values = false});
  const std::shared_ptr<models::Model> model = entry.make({});
  models::Batch batch = model->random_batch(kSamples, 0);
  for (Tensor& input : batch.inputs) input = input.to(gpu::device);
  batch.targets = batch.targets.to(gpu::device);
  const Bytes before = runtime.memory_stats(gpu::device).allocated;
  std::stringstream text;
  Tensor loss;
  {
    Profiler profiler;
    loss = model->loss(batch);
    profiler.write_trace(text);
  }
  Figures figures;
  figures.activations = static_cast<double>((runtime.memory_stats(gpu::device).allocated - before).count) / kSamples;
  for (const trace::OpRecord& op : trace::read_json(text.str(), "the model's trace").ops) {
    figures.flops += op.flops / kSamples;
  }
  return figures;
}

void print_table() {
  fmt::print("{:<14} {:>14} {:>12} {:>14}  {}\n", "Model", "Parameters", "GFLOP", "Activations", "Paper");
  fmt::print("{:<14} {:>14} {:>12} {:>14}\n", "", "", "a sample", "MB a sample");
  for (const models::Entry& entry : models::all()) {
    const Figures figures = figures_of(entry);
    fmt::print("{:<14} {:>14} {:>12.4f} {:>14.3f}  {}\n", entry.name, entry.parameters, figures.flops / 1e9,
               figures.activations / 1e6, entry.paper);
  }
}

void write_json(const std::string& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const models::Entry& entry : models::all()) {
    const Figures figures = figures_of(entry);
    list.push_back({{"name", entry.name},
                    {"parameters", entry.parameters},
                    {"flops_per_sample", figures.flops},
                    {"activation_bytes_per_sample", figures.activations},
                    {"paper", entry.paper},
                    {"parameters_from", entry.reference}});
  }
  const std::string text = nlohmann::ordered_json{{"models", list}}.dump(2);
  if (path == "-") {
    fmt::print("{}\n", text);
    return;
  }
  std::ofstream file(path);
  file << text << '\n';
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

}  // namespace

void add_models_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "models", "List the models: parameters, and what forward of one sample in f32 computes and keeps for backward");
  const auto json = std::make_shared<std::string>();
  command->add_option("--json", *json, "Write JSON to FILE, - for the standard output")->type_name("FILE");
  command->callback([json] { json->empty() ? print_table() : write_json(*json); });
}

}  // namespace ferry::cli
