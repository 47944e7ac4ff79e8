// Trains a small residual network on Fashion-MNIST.
#include <ferry/ferry.h>
#include <fmt/format.h>

#include "fashion_mnist/training.h"
#include "tools/common/interrupt.h"
#include "tools/common/output_file.h"

namespace fashion_mnist {
namespace {

void add_options(CLI::App& app, Options& options) {
  program::add_common_options(app, options.common);
  app.add_option("--data", options.data, "Folder of the data set")->capture_default_str()->type_name("FOLDER");
  app.add_option("--epochs", options.epochs, "Passes over the training pictures")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "Pictures in a batch")->capture_default_str()->check(CLI::Range(2, 60'000));
  app.add_option("--limit", options.limit, "Train with this many pictures only")->check(CLI::Range(2, 60'000));
  app.add_option("--test-limit", options.test_limit, "Test with this many pictures only")->check(CLI::PositiveNumber);
  app.add_option("--rate", options.rate, "Highest learning rate; reached after a tenth of the way, then falls to 0")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--precision", options.precision, "f32, or mixed: bf16, or f16 with a scaled loss")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--checkpoint", options.checkpoint,
                 "Save the state of training to FILE after each epoch and on Ctrl-C, and continue from it where it "
                 "exists")
      ->type_name("FILE")
      ->check(program::writable_file());
  app.add_flag("--restart", options.restart, "Train from the start even if the checkpoint exists");
}

int run(const Options& options, program::StepProfiler& profiler) {
  ferry::Runtime runtime{{.device = options.common.device, .seed = options.common.seed}};
  const program::Pictures training(options.data, "train", options.limit),
      test(options.data, "t10k", options.test_limit);
  fmt::print("fashion_mnist: a small residual network\n");
  fmt::print("Place: {}; images/s are wall time\n", program::place_of(runtime));
  fmt::print("Data: {} training and {} test pictures from {}\n", training.size(), test.size(), options.data);
  std::fflush(stdout);

  Trainer trainer(options, training, test);
  if (trainer.state().step > 0) {
    fmt::print("Continuing from {} after {} batches.\n", options.checkpoint, trainer.state().step);
    std::fflush(stdout);
  }
  auto epochs = nlohmann::ordered_json::array();
  program::Throughput throughput(runtime, "images");
  const bool finished = trainer.run(profiler, throughput, [&](const EpochFigures& epoch) {
    fmt::print("epoch {}: loss {:.4f}, test accuracy {:.2f} %\n", epoch.epoch, epoch.loss, 100 * epoch.accuracy);
    std::fflush(stdout);
    epochs.push_back({{"epoch", epoch.epoch}, {"loss", epoch.loss}, {"test_accuracy", epoch.accuracy}});
  });
  profiler.finish();
  if (!finished) {
    fmt::print("Interrupted. {}\n", options.checkpoint.empty() ? "Nothing was saved: there is no --checkpoint."
                                                               : "The same command continues.");
    return program::kInterruptedExitCode;
  }

  const double accuracy = epochs.empty() ? trainer.test_accuracy() : epochs.back()["test_accuracy"].get<double>();
  fmt::print("Test accuracy: {:.2f} %\n", 100 * accuracy);
  fmt::print("On this machine, wall time: {:.0f} images/s\n", trainer.images_per_second());
  fmt::print("{}\n", throughput.text());
  auto json = program::runtime_figures(runtime);
  json["training_pictures"] = training.size();
  json["test_pictures"] = test.size();
  json["steps"] = trainer.state().step;
  json["epochs"] = epochs;
  json["loss"] = trainer.state().loss;
  json["test_accuracy"] = accuracy;
  json["images_per_second_wall"] = trainer.images_per_second();
  throughput.add_to(json);
  program::write_figures(options.common.json, json);
  return 0;
}

}  // namespace
}  // namespace fashion_mnist

int main(int argc, char** argv) {
  CLI::App app{"Trains a small residual network on Fashion-MNIST.", "fashion_mnist"};
  fashion_mnist::Options options;
  program::StepProfiler profiler;
  fashion_mnist::add_options(app, options);
  profiler.add_options(app);
  return program::run_program(app, argc, argv, [&] { return fashion_mnist::run(options, profiler); });
}
