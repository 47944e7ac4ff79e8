#include "tools/ferry/training_run.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <ferry/random.h>
#include <ferry/safetensors.h>
#include "src/base/check.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace ferry::cli {
namespace {

// Reading a loss waits for the device, so only some are looked at.
constexpr std::int64_t kLossEvery = 10;

std::unique_ptr<Runtime> make_runtime(const RunOptions& options, const std::function<void()>& with_runtime) {
  auto runtime = std::make_unique<Runtime>(RuntimeOptions{.device = options.job.device,
                                                          .device_memory = options.device_memory,
                                                          .values = !options.timing_only,
                                                          .placement_file = options.placement_file,
                                                          .seed = options.job.seed});
  FERRY_CHECK(!options.timing_only || runtime->devices().back().simulated, InvalidArgument,
              "--timing-only needs a simulated GPU; {} is none", runtime->devices().back().name);
  FERRY_CHECK(!options.timing_only || options.checkpoint.empty(), InvalidArgument,
              "--timing-only computes no values: there is nothing to save in --checkpoint {}", options.checkpoint);
  if (with_runtime) with_runtime();
  return runtime;
}

template <class Number>
Number number_at(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  Number value{};
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  throw ParseError(fmt::format("{}: no checkpoint of ferry train: '{}' is missing or no number", path, key));
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& options) {
  add_job_options(command, options.job);
  command.add_option("--data", options.data, "random, fashion-mnist or text:FILE")->capture_default_str();
  command.add_option("--batch", options.batch, "Samples in a batch")->capture_default_str()->check(CLI::PositiveNumber);
  command.add_option("--steps", options.steps, "Training steps")->capture_default_str()->check(CLI::PositiveNumber);
  command.add_option("--accumulate", options.accumulate, "Batches whose gradients make one step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_flag("--timing-only", options.timing_only,
                   "On a simulated GPU: shapes, memory and times without computing values");
  command.add_option("--json", options.json, "Write the figures to FILE")->type_name("FILE");
  command.add_flag("--quiet", options.quiet, "No progress bar");
}

TrainingRun::TrainingRun(const RunOptions& options, const std::function<void()>& with_runtime)
    : options_(options),
      runtime_(make_runtime(options, with_runtime)),
      job_(options.job),
      data_(open_data(options.data, job_.model(), options.batch, options.job.seed)) {
  if (!options.checkpoint.empty() && !options.restart && std::filesystem::exists(options.checkpoint)) resume();
  first_step_ = step_;
}

void TrainingRun::print_head(std::string_view command) const {
  fmt::print("ferry {}: {}, batch {}{}, {}, {}\n", command, options_.job.model, options_.batch,
             options_.accumulate > 1 ? fmt::format(" x {}", options_.accumulate) : "", options_.job.optimizer,
             options_.job.precision);
  fmt::print("Place: {}; rates of the progress bar are wall time\n", program::place_of(*runtime_));
  fmt::print("Data: {}\n", data_->describe());
  if (step_ > 0) fmt::print("Continuing from {} after {} steps.\n", options_.checkpoint, step_);
  std::fflush(stdout);
}

void TrainingRun::step() {
  std::vector<models::Batch> batches;
  for (std::int64_t i = 0; i < options_.accumulate; ++i)
    batches.push_back(data_->batch(step_ * options_.accumulate + i));
  const Tensor loss = job_.step(batches);
  const bool first = step_ == first_step_;
  ++step_;
  if (!first && step_ % kLossEvery != 0 && step_ != options_.steps) return;
  loss_ = loss.item();
  if (first) first_loss_ = loss_;
}

bool TrainingRun::run(const std::function<void(std::int64_t)>& before_step) {
  program::watch_for_interrupt();
  const auto samples = [&] { return static_cast<double>(step_ * options_.batch * options_.accumulate); };
  const auto share = [&] { return static_cast<double>(step_) / static_cast<double>(options_.steps); };
  const auto wall = std::chrono::steady_clock::now();
  const Nanoseconds begin = runtime_->now();
  {
    program::Progress progress("samples", share(), samples(), options_.quiet);
    while (step_ < options_.steps && !program::interrupted()) {
      if (before_step) before_step(step_ - first_step_);
      step();
      progress.update(
          share(), samples(),
          options_.timing_only ? fmt::format("step {}", step_) : fmt::format("step {}  loss {:.4f}", step_, loss_));
      if (options_.save_every > 0 && step_ % options_.save_every == 0) save();
    }
    runtime_->synchronize();
  }
  time_ = runtime_->now() - begin;
  wall_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  save();
  return step_ == options_.steps;
}

void TrainingRun::print_figures() const {
  const std::int64_t steps = step_ - first_step_;
  const double samples = static_cast<double>(steps * options_.batch * options_.accumulate);
  const double milliseconds = std::chrono::duration<double, std::milli>(time_).count();
  const MemoryStats memory = runtime_->memory_stats(runtime_->default_device());
  nlohmann::ordered_json figures = program::runtime_figures(*runtime_);
  figures["model"] = options_.job.model;
  figures["batch"] = options_.batch * options_.accumulate;
  figures["steps"] = step_;
  figures["first_loss"] = first_loss_;
  figures["loss"] = loss_;
  figures["ms_per_step"] = steps > 0 ? milliseconds / static_cast<double>(steps) : 0;
  figures["samples_per_second_wall"] = wall_seconds_ > 0 ? samples / wall_seconds_ : 0;
  program::write_figures(options_.json, figures);
  if (steps == 0) {
    fmt::print("All {} steps were done before.\n", step_);
    return;
  }
  if (!options_.timing_only) fmt::print("Loss: {:.4f} at first, {:.4f} at the end\n", first_loss_, loss_);
  if (runtime_->virtual_time()) {
    fmt::print("Time: {:.3f} ms a step, {:.1f} samples/s (virtual)\n", milliseconds / static_cast<double>(steps),
               1e3 * samples / milliseconds);
  }
  fmt::print("Wall: {:.3f} ms a step, {:.1f} samples/s\n", 1e3 * wall_seconds_ / static_cast<double>(steps),
             samples / wall_seconds_);
  fmt::print("Peak memory: {} allocated, {} reserved\n", to_string(memory.peak_allocated),
             to_string(memory.peak_reserved));
}

// What must be the same for a resumed run to continue as if it had not stopped.
Metadata TrainingRun::settings() const {
  const JobOptions& job = options_.job;
  return {{"model", job.model},
          {"data", options_.data},
          {"batch", fmt::to_string(options_.batch)},
          {"accumulate", fmt::to_string(options_.accumulate)},
          {"optimizer", job.optimizer},
          {"precision", job.precision},
          {"rate", fmt::to_string(job.rate)},
          {"seed", fmt::to_string(job.seed)},
          {"image-size", fmt::to_string(job.shape.image_size)},
          {"sequence-length", fmt::to_string(job.shape.sequence_length)},
          {"classes", fmt::to_string(job.shape.classes)},
          {"checkpoint-segments", fmt::to_string(job.shape.checkpoint_segments)}};
}

void TrainingRun::save() const {
  if (options_.checkpoint.empty()) return;
  Metadata metadata = settings();
  const RandomState random = random_state();
  metadata["step"] = fmt::to_string(step_);
  metadata["loss"] = fmt::to_string(loss_);
  metadata["random_seed"] = fmt::to_string(random.seed);
  metadata["random_offset"] = fmt::to_string(random.offset);
  save_tensors(options_.checkpoint, job_.state(), metadata);
}

void TrainingRun::resume() {
  const std::string& path = options_.checkpoint;
  const TensorFile file = load_tensors(path);
  const auto step = number_at<std::int64_t>(file.metadata, "step", path);
  const auto loss = number_at<double>(file.metadata, "loss", path);
  const RandomState random{number_at<std::uint64_t>(file.metadata, "random_seed", path),
                           number_at<std::uint64_t>(file.metadata, "random_offset", path)};
  for (const auto& [key, value] : settings()) {
    const auto saved = file.metadata.find(key);
    FERRY_CHECK(saved != file.metadata.end() && saved->second == value, InvalidArgument,
                "{} was made with --{} {}, this run has {}: use the same, or start anew with --restart", path, key,
                saved == file.metadata.end() ? "unknown" : saved->second, value);
  }
  FERRY_CHECK(step <= options_.steps, InvalidArgument, "{} has {} steps already, --steps asks for {}", path, step,
              options_.steps);
  job_.set_state(file.tensors, path);
  set_random_state(random);
  step_ = step;
  loss_ = first_loss_ = loss;
}

}  // namespace ferry::cli
