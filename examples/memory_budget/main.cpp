// Trains the network of fashion_mnist, made deeper, twice: with as much device memory as it takes, and within less than
// a third of that. The second run differs by two lines, marked below, and gives the same numbers bit for bit.
#include <ferry/ferry.h>
#include <ferry/swap.h>  // line 1 of 2
#include <fmt/format.h>

#include <numeric>

#include "fashion_mnist/model.h"
#include "tools/common/pictures.h"
#include "tools/common/program.h"

namespace {

using nlohmann::ordered_json;

struct Settings {
  program::CommonOptions common;
  std::string data = program::kFashionMnistFolder;
  std::int64_t blocks = 10, batch = 64, steps = 8, test_pictures = 256;
  double part = 0.3;

  ferry::RuntimeOptions runtime() const { return {.device = common.device, .seed = common.seed}; }
};

struct Outcome {
  std::vector<double> losses{};
  double accuracy = 0;
  std::vector<std::vector<float>> state{};  // parameters and running statistics
  ferry::Bytes peak_allocated{}, peak_reserved{};
  double milliseconds_per_step = 0;
};

double accuracy_of(fashion_mnist::SmallResNet& model, const program::Pictures& pictures, std::int64_t batch) {
  const ferry::NoGrad no_grad;
  model.eval();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(pictures.size()));
  std::iota(positions.begin(), positions.end(), 0);
  double right = 0;
  for (std::span<const std::int32_t> left = positions; !left.empty();) {
    const std::size_t count = std::min(left.size(), static_cast<std::size_t>(batch));
    const program::PictureBatch test = pictures.batch(left.first(count));
    right += sum(equal(argmax(model(test.images)), test.labels).to(ferry::DType::f32)).item();
    left = left.subspan(count);
  }
  return right / static_cast<double>(pictures.size());
}

// Knows nothing of budgets.
Outcome train(const Settings& settings, ferry::Runtime& runtime) {
  const program::Pictures pictures(settings.data, "train", settings.batch * settings.steps),
      test(settings.data, "t10k", settings.test_pictures);
  fashion_mnist::SmallResNet model(program::kPictureClasses, settings.blocks);
  ferry::optim::Sgd optimizer(model, {.rate = 0.05, .momentum = 0.9});
  const std::vector<std::int32_t> order = program::shuffled_positions(pictures.size(), settings.common.seed, 0);
  Outcome outcome;
  const ferry::Nanoseconds begin = runtime.now();
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const std::span positions = std::span(order).subspan(static_cast<std::size_t>(step * settings.batch),
                                                         static_cast<std::size_t>(settings.batch));
    const program::PictureBatch batch = pictures.batch(positions);
    const ferry::Tensor loss = softmax_cross_entropy(model(batch.images), batch.labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    outcome.losses.push_back(loss.item());
  }
  outcome.milliseconds_per_step =
      std::chrono::duration<double, std::milli>(runtime.now() - begin).count() / static_cast<double>(settings.steps);
  outcome.accuracy = accuracy_of(model, test, settings.batch);
  for (const auto& list : {model.parameters(), model.buffers()})
    for (const ferry::nn::NamedTensor& each : list)
      outcome.state.push_back(each.tensor.to(ferry::DType::f32).to_vector<float>());
  const ferry::MemoryStats memory = runtime.memory_stats(runtime.default_device());
  outcome.peak_allocated = memory.peak_allocated;
  outcome.peak_reserved = memory.peak_reserved;
  return outcome;
}

Outcome train_without(const Settings& settings) {
  ferry::Runtime runtime(settings.runtime());
  return train(settings, runtime);
}

Outcome train_within(const Settings& settings, ferry::Bytes size) {
  ferry::Runtime runtime(settings.runtime());
  ferry::MemoryBudget budget{size};  // line 2 of 2
  Outcome outcome = train(settings, runtime);
  const ferry::MemoryBudgetStats stats = budget.stats();
  fmt::print("Swapped: {} out, {} in; {} ops recomputed in {}; {} of {} steps by plan\n", to_string(stats.bytes_out),
             to_string(stats.bytes_in), stats.recomputations, ferry::to_string(stats.recompute_time),
             stats.planned_iterations, settings.steps);
  return outcome;
}

void print(std::string_view title, const Outcome& outcome) {
  fmt::print("{}: peak {} allocated, {} reserved; {:.3f} ms a step; loss {:.6f}, test accuracy {:.2f} %\n", title,
             to_string(outcome.peak_allocated), to_string(outcome.peak_reserved), outcome.milliseconds_per_step,
             outcome.losses.back(), 100 * outcome.accuracy);
  std::fflush(stdout);
}

ordered_json figures_of(const Outcome& outcome) {
  return {{"peak_allocated", outcome.peak_allocated.count},
          {"peak_reserved", outcome.peak_reserved.count},
          {"ms_per_step", outcome.milliseconds_per_step},
          {"losses", outcome.losses},
          {"test_accuracy", outcome.accuracy}};
}

int run(Settings& settings) {
  ordered_json figures;
  {
    const ferry::Runtime runtime(settings.runtime());
    if (runtime.default_device().is_cpu())
      throw ferry::InvalidArgument("this program needs a GPU, real or simulated, such as --device sim:rtx2080ti");
    fmt::print("Place: {}\n", program::place_of(runtime));
    figures = program::runtime_figures(runtime);
  }
  const Outcome without = train_without(settings);
  print("Without a budget", without);
  const ferry::Bytes size{static_cast<std::int64_t>(static_cast<double>(without.peak_allocated.count) * settings.part)};
  fmt::print("\nBudget: {}, {:.0f} % of that peak\n", to_string(size), 100 * settings.part);
  const Outcome within = train_within(settings, size);
  print("Within the budget", within);
  const bool is_same =
      without.losses == within.losses && without.accuracy == within.accuracy && without.state == within.state;
  fmt::print("Losses, accuracy, parameters and running statistics: {}\n",
             is_same ? "the same, bit for bit" : "DIFFERENT");
  figures["budget"] = size.count;
  figures["without"] = figures_of(without);
  figures["within"] = figures_of(within);
  figures["same"] = is_same;
  program::write_figures(settings.common.json, figures);
  return is_same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a network within a third of the memory it takes.", "memory_budget");
  Settings settings;
  program::add_common_options(app, settings.common);
  app.add_option("--data", settings.data, "Folder of the data set")->capture_default_str()->type_name("FOLDER");
  app.add_option("--blocks", settings.blocks, "Residual blocks of each of the three stages")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "Pictures in a batch")->capture_default_str()->check(CLI::Range(2, 4096));
  app.add_option("--steps", settings.steps, "Training steps")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--part", settings.part, "The budget, as a part of the peak without one")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 1.0));
  return program::run_program(app, argc, argv, [&] { return run(settings); });
}
