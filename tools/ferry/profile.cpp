// ferry profile: trains a model for some steps and prints the Profiling Report.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include <ferry/profiler.h>
#include <ferry/runtime.h>
#include "src/base/check.h"
#include "tools/ferry/command.h"
#include "tools/ferry/training_run.h"

namespace ferry::cli {
namespace {

struct Settings {
  Settings() { run.steps = 5; }
  RunOptions run;
  std::int64_t warm_up = 2;
  std::string sort = "default", html, chrome, trace;
  bool per_thread = false;
  CLI::Option* advise = nullptr;  // given: advice instead of a report
  std::string placement, device_memory;
  bool apply = false;
};

using Writer = void (Profiler::*)(std::ostream&);

void write(Profiler& profiler, const std::string& path, Writer writer) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  (profiler.*writer)(file);
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

// Records making the model and all steps, and says where what should run.
PlacementAdvice advice_of(const RunOptions& options, Bytes device_memory) {
  std::unique_ptr<Profiler> profiler;
  TrainingRun training(options, [&] { profiler = std::make_unique<Profiler>(); });
  training.print_head("profile");
  FERRY_CHECK(training.run(), InvalidArgument, "profile: interrupted before the last step");
  return profiler->advise_placement(device_memory);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// "Placement: why nothing fits\n" → "why nothing fits".
std::string_view reason_of(const PlacementAdvice& advice) {
  std::string_view text = advice.text;
  text.remove_prefix(std::min(text.find(": ") + 2, text.size()));
  return text.substr(0, text.find('\n'));
}

void advise(const Settings& settings) {
  RunOptions options = settings.run;
  const DeviceDescription gpu = Runtime({.device = options.job.device}).devices().back();
  FERRY_CHECK(gpu.device.is_gpu(), InvalidArgument,
              "profile --advise needs a GPU, real or simulated, such as --device "
              "sim:rtx2080ti");
  const Bytes memory = settings.device_memory.empty() ? gpu.capacity : parse_bytes(settings.device_memory);
  if (gpu.simulated) {
    // What does not fit is recorded, too: without values, and with as much memory as it takes.
    options.timing_only = true;
    options.device_memory = kGiB * 4096;
  }
  const PlacementAdvice advice = advice_of(options, memory);
  FERRY_CHECK(advice.works, InvalidArgument, "profile --advise: {}", reason_of(advice));
  fmt::print("\n{}", advice.text);
  const std::string path = settings.placement.empty() ? "placement.json" : settings.placement;
  if (settings.placement.empty() && !settings.apply) return;
  write_file(path, advice.file);
  fmt::print("Placement file: {} (FERRY_PLACEMENT={} applies it to any program)\n", path, path);
  if (!settings.apply || !advice.changes) return;
  options.placement_file = path;
  if (gpu.simulated) options.device_memory = memory;
  fmt::print("\nOnce more under {}:\n", path);
  const PlacementAdvice applied = advice_of(options, memory);
  fmt::print("\nAs recorded {:.4g} ms, predicted {:.4g} ms, measured {:.4g} ms\n", milliseconds(advice.recorded),
             milliseconds(advice.predicted), milliseconds(applied.recorded));
  // A replay that erred is no advice. What must move to fit moves all the same.
  if (applied.recorded <= advice.recorded || advice.predicted >= advice.recorded) return;
  write_file(path, "{\"rules\": []}\n");
  fmt::print("It is slower than as recorded: everything stays, {} has no rules now.\n", path);
}

void run(const Settings& settings) {
  if (settings.advise->count() > 0 || settings.apply) return advise(settings);
  RunOptions options = settings.run;
  options.steps += settings.warm_up;
  TrainingRun training(options);
  training.print_head("profile");
  std::unique_ptr<Profiler> profiler;
  const bool finished = training.run([&](std::int64_t step) {
    if (step == settings.warm_up) profiler = std::make_unique<Profiler>();
  });
  FERRY_CHECK(profiler != nullptr && finished, InvalidArgument, "profile: interrupted before the last step");
  profiler->stop();
  fmt::print("\n{}\n", profiler->report({.sort = settings.sort, .per_thread = settings.per_thread}));
  write(*profiler, settings.html, &Profiler::write_html);
  write(*profiler, settings.chrome, &Profiler::write_chrome_trace);
  write(*profiler, settings.trace, &Profiler::write_trace);
  training.print_figures();
}

}  // namespace

void add_profile_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("profile", "Train a model for some steps and print the Profiling Report");
  const auto settings = std::make_shared<Settings>();
  add_run_options(*command, settings->run);
  command->add_option("--warm-up", settings->warm_up, "Steps before the recorded ones")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--sort", settings->sort, "default, total, calls, max, min or ave")->capture_default_str();
  command->add_flag("--per-thread", settings->per_thread, "A table for each thread");
  command->add_option("--html", settings->html, "Write the report as a page")->type_name("FILE");
  command->add_option("--chrome-trace", settings->chrome, "Write a trace for Perfetto")->type_name("FILE");
  command->add_option("--trace", settings->trace, "Write the trace for `ferry report`")->type_name("FILE");
  settings->advise =
      command
          ->add_option("--advise", settings->placement,
                       "Print which ops to put on which device, with the time before and after; write it to FILE as a "
                       "placement file")
          ->expected(0, 1)
          ->type_name("[FILE]");
  command->add_flag("--apply", settings->apply,
                    "With --advise: train once more under that placement and print the time beside the predicted one");
  command->add_option("--device-memory", settings->device_memory,
                      "With --advise: the GPU's memory that must do, such as 4GiB (default: all of it)");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
