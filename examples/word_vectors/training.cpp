#include "word_vectors/training.h"

#include <algorithm>

#include <ferry/ferry.h>
#include <fmt/format.h>

#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace word_vectors {

using namespace ferry;

namespace {

// Reading a loss waits for the GPU, so it is read now and then: at fixed steps, which keeps runs alike.
constexpr std::int64_t kLossEvery = 10;
constexpr double kLossMemory = 0.9;
constexpr double kLowestRate = 0.01;  // of the first rate
// A word's vector is the mean of about fifteen rows, so that each row sees a fifteenth of its gradient.
constexpr double kTableRate = 5;

struct Optimizers {
  explicit Optimizers(const Model& model, double rate)
      : base(rate), table({model.table}, {.rate = rate * kTableRate}), output({model.output}, {.rate = rate}) {}

  void step(double share) {
    const double rate = base * std::max(1 - share, kLowestRate);
    table.set_rate(rate * kTableRate);
    output.set_rate(rate);
    table.step();
    output.step();
    table.zero_grad();
    output.zero_grad();
  }

  double base;
  optim::Sgd table, output;
};

double share_done(const Options& options, const Sampler& sampler, const Vocabulary& vocabulary) {
  const double share =
      options.steps > 0
          ? static_cast<double>(sampler.position().step) / static_cast<double>(options.steps)
          : sampler.words_seen() / (static_cast<double>(options.epochs) * static_cast<double>(vocabulary.total()));
  return std::min(share, 1.0);
}

void note_loss(TrainingState& state, double loss) {
  if (state.first_loss == 0) state.first_loss = state.loss = loss;
  state.loss = kLossMemory * state.loss + (1 - kLossMemory) * loss;
}

}  // namespace

TrainingFigures train(const Options& options, std::span<const Document> documents, const Vocabulary& vocabulary,
                      const RowLists& rows_of_words, Model& model, program::StepProfiler& profiler,
                      program::Throughput& throughput) {
  Sampler sampler(documents, vocabulary,
                  {options.batch, options.negatives, options.window, options.subsample, options.common.seed});
  TrainingFigures figures;
  TrainingState& state = figures.state;
  if (!options.restart && rows_in_checkpoint(options.checkpoint)) {
    state = load_checkpoint(options.checkpoint, options, vocabulary, rows_of_words, model);
    sampler.seek(state.position);
    fmt::print("Continuing from {} after {} batches.\n", options.checkpoint, state.position.step);
    std::fflush(stdout);
  }
  const auto save = [&] {
    if (options.checkpoint.empty()) return;
    save_checkpoint(options.checkpoint, options, vocabulary, rows_of_words, model, state);
  };

  Optimizers optimizers(model, options.rate);
  program::Progress progress("words", share_done(options, sampler, vocabulary), sampler.words_seen(),
                             options.common.quiet);
  program::watch_for_interrupt();
  const std::int64_t first_step = state.position.step;
  const double first_words = sampler.words_seen();
  throughput.begin();
  for (double share; (share = share_done(options, sampler, vocabulary)) < 1;) {
    profiler.before_step(state.position.step - first_step);
    const Batch batch = sampler.next();
    const Tensor loss = model.loss(batch, rows_of_words);
    loss.backward();
    optimizers.step(share);
    if (state.position.step % kLossEvery == 0)
      note_loss(state, loss.item() / static_cast<double>(batch.contexts.size()));
    state.position = sampler.position();
    progress.update(share_done(options, sampler, vocabulary), sampler.words_seen(),
                    fmt::format("loss {:.4f}", state.loss));
    if (program::interrupted()) break;
    if (state.position.step % options.checkpoint_every == 0) save();
  }
  throughput.end(state.position.step - first_step, sampler.words_seen() - first_words);
  figures.outcome = share_done(options, sampler, vocabulary) < 1 ? Outcome::interrupted : Outcome::finished;
  figures.words = sampler.words_seen();
  figures.words_per_second = progress.rate();
  save();
  return figures;
}

}  // namespace word_vectors
