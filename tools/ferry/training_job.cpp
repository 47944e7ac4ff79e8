#include "tools/ferry/training_job.h"

#include <sstream>

#include <ferry/profiler.h>
#include "src/device/device_spec.h"
#include "src/trace/trace_json.h"

namespace ferry::cli {

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
  command.add_option("--optimizer", options.optimizer, "sgd or momentum")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "momentum"}));
  command.add_option("--rate", options.rate, "Learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  command.add_option("--seed", options.seed, "Seed of everything random")->capture_default_str();
}

TrainingJob::TrainingJob(const JobOptions& options) : model_(models::make(options.model, options.shape)) {
  const double momentum = options.optimizer == "momentum" ? 0.9 : 0;
  optimizer_ = std::make_unique<optim::Sgd>(*model_, optim::SgdOptions{.rate = options.rate, .momentum = momentum});
}

Tensor TrainingJob::step(const models::Batch& batch) {
  const Tensor loss = model_->loss(batch);
  loss.backward();
  optimizer_->step();
  optimizer_->zero_grad();
  return loss.detach();
}

double flops_of_a_sample(TrainingJob& job) {
  std::stringstream text;
  {
    Profiler profiler;
    job.step(job.model().random_batch(1, 0));
    profiler.write_trace(text);
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
