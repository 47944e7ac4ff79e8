// A model with its optimizer, set up from the command line: what max-batch, train and profile share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ferry/grad_scaler.h>
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
  std::string precision = "f32";
  double rate = 0.01;
  std::uint64_t seed = 1;
};

// --model, --device, --image-size, --sequence-length, --classes, --optimizer, --precision, --rate, --seed.
void add_job_options(CLI::App& command, JobOptions& options);

// Owns a model and its optimizer, made on the current runtime.
class TrainingJob {
 public:
  // Throws: InvalidArgument for an unknown model or an option that it cannot have.
  explicit TrainingJob(const JobOptions& options);

  models::Model& model() { return *model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Forward, backward and update, with 16-bit types where the precision says so. The mean of the batches' losses; the
  // gradients of several batches accumulate to that of their union.
  Tensor step(const std::vector<models::Batch>& batches);
  Tensor step(const models::Batch& batch) { return step(std::vector<models::Batch>{batch}); }

  // All that a step changes.
  std::vector<nn::NamedTensor> state() const;
  // Throws: ParseError naming the tensor that is missing or does not fit; `file` is what errors call the source.
  void set_state(const std::vector<nn::NamedTensor>& state, const std::string& file);

 private:
  Tensor forward(const models::Batch& batch);

  std::shared_ptr<models::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  bool casts_ = false;
  DType cast_type_ = DType::bf16;
  GradScaler scaler_;
};

// Floating-point operations of one training step with a batch of one; 0 where not even that has memory enough.
double flops_of_a_sample(TrainingJob& job);

// The peak of the runtime's default device for `dtype`, operations a second; 0 where no figure is known.
double peak_flops(const Runtime& runtime, DType dtype);

}  // namespace ferry::cli
