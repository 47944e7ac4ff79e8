// An embedding table larger than the GPU: without a guard the program runs out of memory, with one line it trains.
#include <ferry/ferry.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tools/common/machine_memory.h"
#include "tools/common/output_file.h"
#include "tools/common/program.h"

namespace {

using json = nlohmann::ordered_json;

// Of the defaults: a table of 5.59 GiB and a GPU of 4 GiB.
constexpr std::int64_t kRows = 10'000'000;
constexpr ferry::Bytes kDeviceMemory = ferry::kGiB * 4;

struct Settings {
  program::CommonOptions common;
  std::string device_memory;  // "": kDeviceMemory, less where the table is lowered
  std::string advise_file;
  std::int64_t rows = kRows, features = 150, batch = 4096;
  int steps = 5;

  ferry::Bytes table() const { return ferry::Bytes{rows * features * 4}; }
};

ferry::Tensor random_ids(const Settings& settings) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(settings.batch));
  std::uint64_t state = 0x9e3779b97f4a7c15u * settings.common.seed;
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
  fmt::print("creating the table of {} …\n", to_string(settings.table()));
  std::fflush(stdout);
  ferry::Tensor table;
  {
    const ferry::DeviceGuard<ferry::cpu> guard;
    table = named(ferry::uniform({settings.rows, settings.features}, -1, 1), "table");
  }
  table.set_requires_grad();
  ferry::optim::Sgd optimizer({table}, {.rate = 1e5});
  json losses = json::array();
  for (int step = 0; step < settings.steps; ++step) {
    const ferry::Nanoseconds begin = runtime.now();
    const ferry::Tensor ids = random_ids(settings);
    ferry::Tensor rows;
    {
      const ferry::DeviceGuard<ferry::cpu> guard;  // the one line: the lookup runs where the table is
      rows = ferry::embedding(table, ids, ferry::GradientKind::row_sparse);
    }
    losses.push_back(train_step(rows, optimizer));
    const double time = std::chrono::duration<double, std::milli>(runtime.now() - begin).count();
    fmt::print("step {}: loss {:.6f}, {:.4g} ms ({})\n", step + 1, losses.back().get<double>(), time,
               runtime.virtual_time() ? "virtual time" : "elapsed");
    std::fflush(stdout);
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

// The program as it is without guards, recorded on a GPU of any size without computing values, and where the advisor
// would have what run for it to fit.
void advise(const Settings& settings, ferry::Bytes memory) {
  const ferry::Runtime runtime(
      {.device = settings.common.device, .device_memory = settings.table() * 4 + ferry::kGiB, .values = false});
  ferry::Profiler profiler;
  const ferry::Tensor table = named(ferry::uniform({settings.rows, settings.features}, -1, 1), "table");
  ferry::Tensor(table).set_requires_grad();
  ferry::optim::Sgd optimizer({table}, {.rate = 1e5});
  for (int step = 0; step < settings.steps; ++step) {
    const ferry::Tensor ids = random_ids(settings);
    train_step(ferry::embedding(table, ids, ferry::GradientKind::row_sparse), optimizer);
  }
  const ferry::PlacementAdvice advice = profiler.advise_placement(memory);
  fmt::print("\nAdvice for {} of device memory:\n{}", to_string(memory), advice.text);
  std::ofstream(settings.advise_file) << advice.file;
}

// Lowers the rows to what this machine has free memory for, and the GPU's memory with them.
void fit_to_memory(Settings& settings) {
  const ferry::Bytes rest = ferry::kMiB * 256, available = program::available_memory();
  if (settings.table() + rest <= available) return;
  const ferry::Bytes row{settings.features * 4};
  // A quarter stays free: other programs' needs change while this one runs.
  const std::int64_t fitting = std::max<std::int64_t>((available - rest).count / 4 * 3 / row.count, 1000);
  if (fitting >= settings.rows) return;
  fmt::print(
      "Notice: a table of {} rows needs {}, {} are free here; {} rows instead, and a GPU that is smaller, too.\n",
      settings.rows, to_string(settings.table()), to_string(available), fitting);
  settings.rows = fitting;
}

ferry::Bytes device_memory(const Settings& settings) {
  if (!settings.device_memory.empty()) return ferry::parse_bytes(settings.device_memory);
  if (settings.rows >= kRows) return kDeviceMemory;
  return ferry::Bytes{kDeviceMemory.count / kRows * settings.rows};
}

int run(Settings& settings) {
  const char* const environment = std::getenv("FERRY_DEVICE");
  if (settings.common.device.empty() && (environment == nullptr || *environment == '\0'))
    settings.common.device = "sim:rtx2080ti";
  fit_to_memory(settings);
  if (!settings.advise_file.empty()) advise(settings, device_memory(settings));
  ferry::Runtime runtime({.device = settings.common.device, .device_memory = device_memory(settings)});
  if (runtime.default_device().is_cpu())
    throw ferry::InvalidArgument("this program needs a GPU, real or simulated, such as --device sim:rtx2080ti");
  const ferry::DeviceDescription gpu = runtime.devices().at(1);
  fmt::print("Place: {}, {} of memory\n", program::place_of(runtime), to_string(gpu.capacity));

  fmt::print("\nWithout a guard:\n");
  const std::string failure = out_of_memory_without_guard(settings);
  fmt::print("{}\n", failure.empty() ? "the table fits this GPU" : "OutOfMemory: " + failure);

  fmt::print("\nWith the table in a DeviceGuard<cpu> scope:\n");
  const json losses = train_with_table_on_cpu(settings, runtime);
  const ferry::MemoryStats stats = runtime.memory_stats(ferry::gpu::device);
  fmt::print("peak device memory: {}, reserved {}\n", to_string(stats.peak_allocated), to_string(stats.peak_reserved));
  json figures = program::runtime_figures(runtime);
  figures["rows"] = settings.rows;
  figures["table_bytes"] = settings.table().count;
  figures["device_memory"] = gpu.capacity.count;
  figures["out_of_memory"] = failure;
  figures["losses"] = losses;
  figures["peak_allocated"] = stats.peak_allocated.count;
  figures["peak_reserved"] = stats.peak_reserved.count;
  figures["total_ms"] = figures["time_ms"];
  program::write_figures(settings.common.json, figures);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an embedding table that is larger than the GPU.", "embedding_on_cpu");
  Settings settings;
  program::add_common_options(app, settings.common);
  app.add_option(
      "--device-memory", settings.device_memory,
      "Memory of a simulated GPU, such as 4GiB (default: 4GiB for 10,000,000 rows, in proportion for fewer)");
  app.add_option("--rows", settings.rows, "Rows of the table")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--features", settings.features, "Features a row")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "Ids a step")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--advise", settings.advise_file,
                 "Print which lines to put on the CPU for the table to fit, and write them to FILE as a placement file")
      ->type_name("FILE")
      ->check(program::writable_file());
  app.add_option("--steps", settings.steps, "Training steps")->capture_default_str()->check(CLI::PositiveNumber);
  return program::run_program(app, argc, argv, [&] { return run(settings); });
}
