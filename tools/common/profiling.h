// --profile: records a few steps of a training run and prints their Profiling Report.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ferry/profiler.h>
#include <CLI/CLI.hpp>

namespace program {

class StepProfiler {
 public:
  // Adds --profile [FILE] and --profile-steps. FILE.html is a page, FILE.json a Chrome trace, FILE.trace a trace for
  // the ferry command.
  void add_options(CLI::App& app);
  // Called before each step, counted from 0 in this run. The first steps, which warm caches, are not recorded.
  void before_step(std::int64_t step);
  // Prints the report and writes the file, if steps were recorded.
  void finish();

 private:
  CLI::Option* option_ = nullptr;
  std::string file_;
  std::int64_t steps_ = 50;
  std::unique_ptr<ferry::Profiler> profiler_;
};

}  // namespace program
