// A model with its optimizer, set up from the command line: what max-batch, train and profile share.
#pragma once

#include <memory>
#include <string>

#include <ferry/models.h>
#include <ferry/optim.h>
#include <ferry/runtime.h>
#include <CLI/CLI.hpp>

namespace ferry::cli {

struct JobOptions {
  std::string model;
  std::string device;  // as RuntimeOptions::device
  models::Options shape{};
  std::string optimizer = "sgd";
  double rate = 0.01;
  std::uint64_t seed = 1;
};

// --model, --device, --image-size, --sequence-length, --classes, --optimizer, --rate, --seed.
void add_job_options(CLI::App& command, JobOptions& options);

// Owns a model and its optimizer, made on the current runtime.
class TrainingJob {
 public:
  // Throws: InvalidArgument for an unknown model or an option that it cannot have.
  explicit TrainingJob(const JobOptions& options);

  models::Model& model() { return *model_; }
  optim::Sgd& optimizer() { return *optimizer_; }
  // Forward, backward and update.
  Tensor step(const models::Batch& batch);

 private:
  std::shared_ptr<models::Model> model_;
  std::unique_ptr<optim::Sgd> optimizer_;
};

// Floating-point operations of one training step with a batch of one.
double flops_of_a_sample(TrainingJob& job);

// The peak of the runtime's default device for `dtype`, operations a second; 0 where no figure is known.
double peak_flops(const Runtime& runtime, DType dtype);

}  // namespace ferry::cli
