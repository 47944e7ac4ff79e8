// Training and testing of the network, and the state of training in a file.
#pragma once

#include <functional>

#include <ferry/grad_scaler.h>
#include <ferry/optim.h>
#include <ferry/safetensors.h>

#include "fashion_mnist/model.h"
#include "tools/common/pictures.h"
#include "tools/common/profiling.h"
#include "tools/common/program.h"
#include "tools/common/throughput.h"

namespace fashion_mnist {

struct Options {
  program::CommonOptions common;
  std::string data = program::kFashionMnistFolder;
  std::int64_t epochs = 3, batch = 128;
  std::int64_t limit = 0, test_limit = 0;  // pictures; 0: all
  double rate = 0.1, momentum = 0.9, weight_decay = 5e-4;
  std::string precision = "f32";  // or mixed: "bf16", "f16"
  std::string checkpoint;
  bool restart = false;  // ignore an existing checkpoint
};

struct TrainingState {
  std::int64_t step = 0;  // batches trained
  double loss = 0;        // running average
};

struct EpochFigures {
  std::int64_t epoch;  // from 1
  double loss;
  double accuracy;  // of the test pictures, from 0 to 1
};

class Trainer {
 public:
  // Continues from the options' checkpoint where it exists. Throws: ferry::InvalidArgument when that was made with
  // other options.
  Trainer(const Options& options, const program::Pictures& training, const program::Pictures& test);

  const TrainingState& state() const { return state_; }
  // Trains what is left; false after Ctrl-C. `report` is called at the end of each epoch.
  bool run(program::StepProfiler& profiler, program::Throughput& throughput,
           const std::function<void(const EpochFigures&)>& report);
  // The share of test pictures that the network names rightly.
  double test_accuracy();
  double images_per_second() const { return images_per_second_; }

 private:
  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const { return steps_per_epoch() * options_.epochs; }
  double rate_now() const;
  ferry::Tensor loss_of(const program::PictureBatch& batch);
  void train_step(std::span<const std::int32_t> positions);
  ferry::Metadata settings() const;
  void save() const;
  void resume();

  const Options& options_;
  const program::Pictures& training_;
  const program::Pictures& test_;
  SmallResNet model_;
  ferry::optim::Sgd optimizer_;
  ferry::GradScaler scaler_;  // passes everything unchanged but in f16
  TrainingState state_;
  double images_per_second_ = 0;
};

}  // namespace fashion_mnist
