// A training run from the command line: steps with a progress bar, checkpoints, Ctrl-C, figures at the end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <ferry/safetensors.h>

#include "tools/common/program.h"
#include "tools/ferry/data_source.h"
#include "tools/ferry/training_job.h"

namespace ferry::cli {

struct RunOptions {
  JobOptions job;
  std::string data = "random";
  std::int64_t batch = 32, steps = 100;
  std::int64_t accumulate = 1;  // batches whose gradients make one step
  std::int64_t save_every = 0;  // steps; 0: only at the end and on Ctrl-C
  std::string checkpoint, json;
  bool restart = false;      // ignore an existing checkpoint
  bool timing_only = false;  // on a simulated GPU: shapes and times without values
  bool quiet = false;
  // Of the runtime, as RuntimeOptions has them.
  Bytes device_memory{};
  std::string placement_file;
};

// What train and profile have in common: the job's options, --data, --batch, --steps, --accumulate, --timing-only.
void add_run_options(CLI::App& command, RunOptions& options);

class TrainingRun {
 public:
  // Continues from the checkpoint where it exists. Throws: InvalidArgument when that was made with other options,
  // naming them, and as open_data and TrainingJob; ParseError for another file.
  // with_runtime: called before the model is made.
  explicit TrainingRun(const RunOptions& options, const std::function<void()>& with_runtime = {});

  // Prints what runs where.
  void print_head(std::string_view command) const;
  // Trains what is left; false after Ctrl-C. The state is saved then and at the end. before_step: called with the
  // number of steps that this process has done.
  bool run(const std::function<void(std::int64_t)>& before_step = {});
  // Prints what the steps took and writes options.json.
  void print_figures() const;

 private:
  Metadata settings() const;
  void step();
  void save() const;
  void resume();

  const RunOptions& options_;
  std::unique_ptr<Runtime> runtime_;
  TrainingJob job_;
  std::unique_ptr<DataSource> data_;
  std::int64_t step_ = 0, first_step_ = 0;
  double loss_ = 0, first_loss_ = 0;  // of the last and the first step of this process that were looked at
  double wall_seconds_ = 0;
  Nanoseconds time_{};  // of the runtime's clock, by the steps of this process
};

}  // namespace ferry::cli
