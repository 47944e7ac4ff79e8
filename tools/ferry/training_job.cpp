#include "tools/ferry/training_job.h"

#include <map>
#include <optional>
#include <sstream>

#include <ferry/autocast.h>
#include <ferry/no_grad.h>
#include <ferry/profiler.h>
#include "src/base/check.h"
#include "src/device/device_spec.h"
#include "src/tensor/tensor_impl.h"
#include "src/trace/trace_json.h"

namespace ferry::cli {
namespace {

constexpr std::string_view kModelPrefix = "model.", kOptimizerPrefix = "optimizer.", kScalerPrefix = "scaler.";

std::unique_ptr<optim::Optimizer> make_optimizer(const JobOptions& options, const nn::Module& model) {
  if (options.optimizer == "adam")
    return std::make_unique<optim::Adam>(model, optim::AdamOptions{.rate = options.rate});
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(model, optim::AdamWOptions{.rate = options.rate});
  }
  if (options.optimizer == "adagrad") {
    return std::make_unique<optim::Adagrad>(model, optim::AdagradOptions{.rate = options.rate});
  }
  const double momentum = options.optimizer == "momentum" ? 0.9 : 0;
  return std::make_unique<optim::Sgd>(model, optim::SgdOptions{.rate = options.rate, .momentum = momentum});
}

void append(std::vector<nn::NamedTensor>& to, std::string_view prefix, const std::vector<nn::NamedTensor>& from) {
  for (const nn::NamedTensor& each : from) to.push_back({std::string(prefix) + each.name, each.tensor});
}

std::vector<nn::NamedTensor> below(std::string_view prefix, const std::vector<nn::NamedTensor>& state) {
  std::vector<nn::NamedTensor> result;
  for (const nn::NamedTensor& each : state) {
    if (each.name.starts_with(prefix)) result.push_back({each.name.substr(prefix.size()), each.tensor});
  }
  return result;
}

// Checks that every tensor of the model is there and fits, before any is written.
void require_all(const std::vector<nn::NamedTensor>& wanted, const std::map<std::string, Tensor>& found,
                 const std::string& file) {
  for (const nn::NamedTensor& each : wanted) {
    const auto entry = found.find(each.name);
    FERRY_CHECK(entry != found.end(), ParseError, "{}: tensor '{}' is missing", file, each.name);
    FERRY_CHECK(entry->second.shape() == each.tensor.shape() && entry->second.dtype() == each.tensor.dtype(),
                ParseError, "{}: tensor '{}' is {}, the model has {}", file, each.name, describe(entry->second),
                describe(each.tensor));
  }
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& options) {
  command.add_option("--model", options.model, "Name of a model; `ferry models` lists them")->required();
  command.add_option(
      "--device", options.device,
      "gpu, cpu, cuda:N, or a simulated GPU: sim:NAME or sim:FILE.json (default: a GPU, else sim:rtx2080ti)");
  command.add_option("--image-size", options.shape.image_size, "Height and width of pictures (default: as published)")
      ->check(CLI::PositiveNumber);
  command.add_option("--sequence-length", options.shape.sequence_length, "Tokens a sample (default: as published)")
      ->check(CLI::PositiveNumber);
  command.add_option("--classes", options.shape.classes, "Classes to tell apart (default: as published)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--checkpoint-segments", options.shape.checkpoint_segments,
                  "Run the model's blocks in so many segments whose activations are recomputed in backward")
      ->check(CLI::PositiveNumber);
  command.add_option("--optimizer", options.optimizer, "sgd, momentum, adam, adamw or adagrad")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "momentum", "adam", "adamw", "adagrad"}));
  command.add_option("--precision", options.precision, "f32, or mixed: bf16, or f16 with a scaled loss")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command.add_option("--rate", options.rate, "Learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  command.add_option("--seed", options.seed, "Seed of everything random")->capture_default_str();
}

TrainingJob::TrainingJob(const JobOptions& options)
    : model_(models::make(options.model, options.shape)),
      optimizer_(make_optimizer(options, *model_)),
      casts_(options.precision != "f32"),
      cast_type_(options.precision == "f16" ? DType::f16 : DType::bf16),
      scaler_({.enabled = options.precision == "f16"}) {}

Tensor TrainingJob::forward(const models::Batch& batch) {
  std::optional<Autocast> autocast;
  if (casts_) autocast.emplace(AutocastOptions{.dtype = cast_type_});
  return model_->loss(batch);
}

Tensor TrainingJob::step(const std::vector<models::Batch>& batches) {
  const double share = 1.0 / static_cast<double>(batches.size());
  Tensor total;
  for (const models::Batch& batch : batches) {
    Tensor loss = forward(batch);
    if (batches.size() > 1) loss = loss * share;
    scaler_.scale(loss).backward();
    total = total.defined() ? total + loss.detach() : loss.detach();
  }
  scaler_.step(*optimizer_);
  scaler_.update();
  optimizer_->zero_grad();
  return total;
}

std::vector<nn::NamedTensor> TrainingJob::state() const {
  std::vector<nn::NamedTensor> state;
  append(state, kModelPrefix, model_->parameters());
  append(state, kModelPrefix, model_->buffers());
  append(state, kOptimizerPrefix, optimizer_->state());
  append(state, kScalerPrefix, scaler_.state());
  return state;
}

void TrainingJob::set_state(const std::vector<nn::NamedTensor>& state, const std::string& file) {
  std::map<std::string, Tensor> found;
  for (const nn::NamedTensor& each : state) found.emplace(each.name, each.tensor);
  std::vector<nn::NamedTensor> wanted;
  append(wanted, kModelPrefix, model_->parameters());
  append(wanted, kModelPrefix, model_->buffers());
  require_all(wanted, found, file);
  optimizer_->set_state(below(kOptimizerPrefix, state));
  scaler_.set_state(below(kScalerPrefix, state));
  const NoGrad no_grad;
  for (nn::NamedTensor& each : wanted) each.tensor.copy_(found.at(each.name));
}

double flops_of_a_sample(TrainingJob& job) {
  std::stringstream text;
  try {
    Profiler profiler;
    job.step(job.model().random_batch(1, 0));
    profiler.write_trace(text);
  } catch (const OutOfMemory&) {
    job.optimizer().zero_grad();
    return 0;
  }
  double flops = 0;
  for (const trace::OpRecord& op : trace::read_json(text.str(), "the step's trace").ops) flops += op.flops;
  return flops;
}

double peak_flops(const Runtime& runtime, DType dtype) {
  constexpr std::string_view kSimulated = "sim:";
  for (const DeviceDescription& device : runtime.devices()) {
    if (device.device != runtime.default_device() || !device.simulated) continue;
    const DeviceSpec spec = load_device_spec(device.name.substr(kSimulated.size()));
    return spec.flops_per_second[static_cast<std::size_t>(dtype)];
  }
  return 0;
}

}  // namespace ferry::cli
