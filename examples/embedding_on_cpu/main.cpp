// An embedding table larger than the GPU: without a guard the program runs out of memory, with one line it trains.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <ferry/ferry.h>
#include "tools/common/program.h"

namespace {

using nlohmann::json;

struct Settings {
  std::string device = "sim:rtx2080ti";
  std::string device_memory = "4GiB";
  std::int64_t rows = 10'000'000, features = 150, batch = 4096;
  int steps = 5;
  std::string json_file;
};

ferry::Tensor random_ids(const Settings& settings, int step) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(settings.batch));
  std::uint64_t state = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(step + 1);
  for (std::int64_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(settings.rows));
  }
  return named(ferry::from_vector(ids), "ids");
}

// One training step of everything behind the table, on the default device.
double train_step(const ferry::Tensor& rows, ferry::optim::Sgd& optimizer) {
  const ferry::Tensor loss = ferry::mean(ferry::square_error(ferry::l2_normalize(rows), 0.5));
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item();
}

json train_with_table_on_cpu(const Settings& settings, const ferry::Runtime& runtime) {
  ferry::Tensor table;
  {
    const ferry::DeviceGuard<ferry::cpu> guard;
    table = named(ferry::uniform({settings.rows, settings.features}, -1, 1), "table");
  }
  table.set_requires_grad();
  ferry::optim::Sgd optimizer({table}, {.rate = 1e5});
  json losses = json::array();
  for (int step = 0; step < settings.steps; ++step) {
    const ferry::Tensor ids = random_ids(settings, 0);
    ferry::Tensor rows;
    {
      const ferry::DeviceGuard<ferry::cpu> guard;  // the one line: the lookup runs where the table is
      rows = ferry::embedding(table, ids, ferry::GradientKind::row_sparse);
    }
    losses.push_back(train_step(rows, optimizer));
    fmt::print("step {}: loss {:.6f}, {} ({})\n", step + 1, losses.back().get<double>(),
               ferry::to_string(runtime.now()), runtime.virtual_time() ? "virtual time" : "elapsed");
  }
  return losses;
}

// The message of the failure without a guard; empty when the table fits.
std::string out_of_memory_without_guard(const Settings& settings) {
  try {
    const ferry::Tensor table = ferry::uniform({settings.rows, settings.features}, -1, 1);
  } catch (const ferry::OutOfMemory& error) {
    return error.what();
  }
  return {};
}

json run(const Settings& settings) {
  const ferry::Runtime runtime(
      {.device = settings.device, .device_memory = ferry::parse_bytes(settings.device_memory)});
  if (runtime.default_device().is_cpu()) throw ferry::InvalidArgument("this example needs a GPU, real or simulated");
  const ferry::DeviceDescription gpu = runtime.devices()[1];
  fmt::print("Place: {}{}, {} of memory\n", gpu.name, gpu.simulated ? ", virtual time" : "", to_string(gpu.capacity));

  fmt::print("\nWithout a guard:\n");
  const std::string failure = out_of_memory_without_guard(settings);
  fmt::print("{}\n", failure.empty() ? "the table fits this GPU" : "OutOfMemory: " + failure);

  fmt::print("\nWith the table in a DeviceGuard<cpu> scope:\n");
  const json losses = train_with_table_on_cpu(settings, runtime);
  const ferry::MemoryStats stats = runtime.memory_stats(ferry::gpu::device);
  fmt::print("peak device memory: {}, reserved {}\n", to_string(stats.peak_allocated), to_string(stats.peak_reserved));
  return {{"out_of_memory", failure},
          {"losses", losses},
          {"peak_allocated", stats.peak_allocated.count},
          {"peak_reserved", stats.peak_reserved.count},
          {"total_ms", static_cast<double>(runtime.now().count()) / 1e6}};
}

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--device", settings.device, "a GPU: sim:PRESET or cuda:N")->capture_default_str();
  app.add_option("--device-memory", settings.device_memory, "capacity of a simulated GPU")->capture_default_str();
  app.add_option("--rows", settings.rows, "rows of the table")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--features", settings.features, "features a row")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "ids a step")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--steps", settings.steps, "training steps")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json_file, "write the figures to FILE")->type_name("FILE");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an embedding table that is larger than the GPU.", "embedding_on_cpu");
  Settings settings;
  add_options(app, settings);
  return program::run_program(app, argc, argv, [&] {
    program::write_figures(settings.json_file, run(settings));
    return 0;
  });
}
