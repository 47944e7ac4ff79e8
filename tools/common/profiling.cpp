#include "tools/common/profiling.h"

#include <fstream>

#include <ferry/error.h>
#include <fmt/format.h>

#include "tools/common/output_file.h"

namespace program {
namespace {

constexpr std::int64_t kWarmUpSteps = 5;

std::string check_name(const std::string& name) {
  for (const char* const ending : {".html", ".json", ".trace"}) {
    if (name.ends_with(ending)) return why_not_writable(name);
  }
  return fmt::format("'{}' does not end in .html, .json or .trace", name);
}

}  // namespace

void StepProfiler::add_options(CLI::App& app) {
  option_ = app.add_option("--profile", file_,
                           "Print the Profiling Report of some steps; with FILE.html also a page, with FILE.json a "
                           "Chrome trace, with FILE.trace a trace for the ferry command")
                ->expected(0, 1)
                ->type_name("[FILE]")
                ->check(check_name);
  app.add_option("--profile-steps", steps_, "Steps that --profile records")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

void StepProfiler::before_step(std::int64_t step) {
  if (option_->count() == 0) return;
  if (step == kWarmUpSteps) profiler_ = std::make_unique<ferry::Profiler>();
  if (step == kWarmUpSteps + steps_) profiler_->stop();
}

void StepProfiler::finish() {
  if (!profiler_) {
    if (option_->count() > 0)
      fmt::print("\nNo report: --profile records what follows the first {} steps, and there were no more.\n",
                 kWarmUpSteps);
    return;
  }
  fmt::print("\n{}\n", profiler_->report());
  if (!file_.empty()) {
    std::ofstream out(file_);
    if (file_.ends_with(".html")) {
      profiler_->write_html(out);
    } else if (file_.ends_with(".json")) {
      profiler_->write_chrome_trace(out);
    } else {
      profiler_->write_trace(out);
    }
    if (!out.flush()) throw ferry::InvalidArgument(fmt::format("cannot write {}", file_));
  }
  profiler_.reset();
}

}  // namespace program
