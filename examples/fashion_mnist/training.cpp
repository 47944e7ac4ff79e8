#include "fashion_mnist/training.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>

#include <ferry/ferry.h>
#include <fmt/format.h>

#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace fashion_mnist {

using namespace ferry;

namespace {

// Reading a loss waits for the GPU, so it is read now and then: at fixed steps, which keeps runs alike.
constexpr std::int64_t kLossEvery = 10;
constexpr double kLossMemory = 0.9;
constexpr double kWarmUp = 0.1;  // share of the way on which the rate rises
constexpr std::int64_t kTestBatch = 500;
const std::string kScaler = "scaler.";  // before names of its state in a checkpoint

template <class Number>
Number number_at(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  Number value{};
  if (found != metadata.end()) {
    const std::string& text = found->second;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return value;
  }
  throw ParseError(fmt::format("{}: no checkpoint of fashion_mnist: '{}' is missing or no number", path, key));
}

}  // namespace

Trainer::Trainer(const Options& options, const program::Pictures& training, const program::Pictures& test)
    : options_(options),
      training_(training),
      test_(test),
      model_(program::kPictureClasses),
      optimizer_(model_, {.rate = options.rate, .momentum = options.momentum, .weight_decay = options.weight_decay}),
      scaler_({.enabled = options.precision == "f16"}) {
  if (!options.checkpoint.empty() && !options.restart && std::filesystem::exists(options.checkpoint)) resume();
}

std::int64_t Trainer::steps_per_epoch() const { return (training_.size() + options_.batch - 1) / options_.batch; }

// Rises from zero, then falls to zero, both linearly.
double Trainer::rate_now() const {
  const double share = (static_cast<double>(state_.step) + 0.5) / static_cast<double>(total_steps());
  return options_.rate * std::min(share / kWarmUp, (1 - share) / (1 - kWarmUp));
}

// Forward in 16 bits where that is asked for; parameters, gradients and the update stay f32.
Tensor Trainer::loss_of(const program::PictureBatch& batch) {
  const Autocast autocast{
      {.dtype = options_.precision == "f16" ? DType::f16 : DType::bf16, .enabled = options_.precision != "f32"}};
  return softmax_cross_entropy(model_(batch.images), batch.labels);
}

void Trainer::train_step(std::span<const std::int32_t> positions) {
  const program::PictureBatch batch = training_.batch(positions);
  const Tensor loss = loss_of(batch);
  scaler_.scale(loss).backward();
  optimizer_.set_rate(rate_now());
  scaler_.step(optimizer_);
  scaler_.update();
  optimizer_.zero_grad();
  if (state_.step % kLossEvery == 0) {
    const double value = loss.item();
    state_.loss = state_.step == 0 ? value : kLossMemory * state_.loss + (1 - kLossMemory) * value;
  }
  ++state_.step;
}

bool Trainer::run(program::StepProfiler& profiler, program::Throughput& throughput,
                  const std::function<void(const EpochFigures&)>& report) {
  program::watch_for_interrupt();
  const std::int64_t first_step = state_.step;
  const auto share = [&] { return static_cast<double>(state_.step) / static_cast<double>(total_steps()); };
  const auto images = [&] { return static_cast<double>(state_.step * options_.batch); };
  while (state_.step < total_steps()) {
    const std::int64_t epoch = state_.step / steps_per_epoch();
    const std::vector<std::int32_t> order = program::shuffled_positions(training_.size(), options_.common.seed, epoch);
    {
      program::Progress progress("images", share(), images(), options_.common.quiet);
      model_.train();
      const std::int64_t first = state_.step;
      throughput.begin();
      while (state_.step < (epoch + 1) * steps_per_epoch()) {
        if (program::interrupted()) {
          save();
          return false;
        }
        profiler.before_step(state_.step - first_step);
        const auto begin = static_cast<std::size_t>(state_.step % steps_per_epoch() * options_.batch);
        train_step(std::span(order).subspan(begin).first(
            std::min(static_cast<std::size_t>(options_.batch), order.size() - begin)));
        progress.update(share(), images(), fmt::format("epoch {}  loss {:.4f}", epoch + 1, state_.loss));
      }
      const std::int64_t before = first % steps_per_epoch() * options_.batch;
      throughput.end(state_.step - first, static_cast<double>(training_.size() - before));
      images_per_second_ = progress.rate();
    }
    save();
    report({epoch + 1, state_.loss, test_accuracy()});
  }
  return true;
}

double Trainer::test_accuracy() {
  const NoGrad no_grad;
  model_.eval();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(test_.size()));
  std::iota(positions.begin(), positions.end(), 0);
  double right = 0;
  for (std::span<const std::int32_t> left = positions; !left.empty();) {
    const std::size_t count = std::min(left.size(), static_cast<std::size_t>(kTestBatch));
    const program::PictureBatch batch = test_.batch(left.first(count));
    right += sum(equal(argmax(model_(batch.images)), batch.labels).to(DType::f32)).item();
    left = left.subspan(count);
  }
  return right / static_cast<double>(test_.size());
}

// What must be the same for a resumed run to continue as if it had not stopped.
Metadata Trainer::settings() const {
  return {{"seed", fmt::to_string(options_.common.seed)},
          {"batch", fmt::to_string(options_.batch)},
          {"epochs", fmt::to_string(options_.epochs)},
          {"pictures", fmt::to_string(training_.size())},
          {"rate", fmt::to_string(options_.rate)},
          {"momentum", fmt::to_string(options_.momentum)},
          {"weight-decay", fmt::to_string(options_.weight_decay)},
          {"precision", options_.precision}};
}

void Trainer::save() const {
  if (options_.checkpoint.empty()) return;
  std::vector<nn::NamedTensor> tensors = model_.parameters();
  for (const auto& list : {model_.buffers(), optimizer_.state()})
    tensors.insert(tensors.end(), list.begin(), list.end());
  for (const nn::NamedTensor& each : scaler_.state()) tensors.push_back({kScaler + each.name, each.tensor});
  Metadata metadata = settings();
  metadata["step"] = fmt::to_string(state_.step);
  metadata["loss"] = fmt::to_string(state_.loss);
  save_tensors(options_.checkpoint, tensors, metadata);
}

void Trainer::resume() {
  const std::string& path = options_.checkpoint;
  const TensorFile file = load_tensors(path);
  state_ = {number_at<std::int64_t>(file.metadata, "step", path), number_at<double>(file.metadata, "loss", path)};
  for (const auto& [key, value] : settings()) {
    const auto saved = file.metadata.find(key);
    if (saved != file.metadata.end() && saved->second == value) continue;
    throw InvalidArgument(fmt::format(
        "{} was made with another --{} than {}: use the same, or start anew with --restart", path, key, value));
  }
  std::set<std::string> of_model;
  for (const auto& list : {model_.parameters(), model_.buffers()}) {
    for (const nn::NamedTensor& each : list) of_model.insert(each.name);
  }
  std::vector<nn::NamedTensor> model_state, state, scaler_state;
  for (const nn::NamedTensor& each : file.tensors) {
    if (each.name.starts_with(kScaler)) {
      scaler_state.push_back({each.name.substr(kScaler.size()), each.tensor});
    } else {
      (of_model.contains(each.name) ? model_state : state).push_back(each);
    }
  }
  nn::load_state_dict(model_, model_state);
  optimizer_.set_state(state);
  scaler_.set_state(scaler_state);
}

}  // namespace fashion_mnist
