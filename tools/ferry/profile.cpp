// ferry profile: trains a model for some steps and prints the Profiling Report.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include <ferry/profiler.h>
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
};

using Writer = void (Profiler::*)(std::ostream&);

void write(Profiler& profiler, const std::string& path, Writer writer) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  (profiler.*writer)(file);
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

void run(const Settings& settings) {
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
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
