// ferry train: trains a model of the field.
#include <fmt/format.h>

#include <memory>

#include "tools/common/interrupt.h"
#include "tools/ferry/command.h"
#include "tools/ferry/training_run.h"

namespace ferry::cli {
namespace {

void run(const RunOptions& options) {
  TrainingRun training(options);
  training.print_head("train");
  const bool finished = training.run();
  training.print_figures();
  if (finished) return;
  fmt::print("Interrupted. {}\n", options.checkpoint.empty() ? "Nothing was saved: there is no --checkpoint."
                                                             : "The same command continues.");
  throw CLI::RuntimeError(program::kInterruptedExitCode);
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  const auto options = std::make_shared<RunOptions>();
  add_run_options(*command, *options);
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Save the state of training to FILE at the end and on Ctrl-C, and continue from it where it exists")
      ->type_name("FILE");
  command->add_option("--save-every", options->save_every, "Save after this many steps, too")
      ->check(CLI::PositiveNumber);
  command->add_flag("--restart", options->restart, "Train from the start even if the checkpoint exists");
  command->callback([options] { run(*options); });
}

}  // namespace ferry::cli
