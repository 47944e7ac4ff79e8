#include "word_vectors/options.h"

#include <algorithm>

#include <ferry/units.h>
#include <fmt/format.h>

#include "tools/common/machine_memory.h"
#include "tools/common/output_file.h"

namespace word_vectors {
namespace {

// For everything else than the table: the text, batches, the simulated GPU's memory.
constexpr ferry::Bytes kRest = ferry::kMiB * 512;
constexpr std::int64_t kFewestRows = 1000;

}  // namespace

void add_options(CLI::App& app, Options& options) {
  program::add_common_options(app, options.common);
  const auto number = [&](const std::string& name, auto& value, const std::string& help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("--text", options.text, "Text to learn from (default: Debian's fortunes)")->check(CLI::ExistingFile);
  number("--epochs", options.epochs, "Passes over the text")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "Train this many batches instead")->check(CLI::PositiveNumber);
  number("--dim", options.dim, "Numbers in a vector")->check(CLI::Range(1, 4096));
  number("--rows", options.rows, "Rows of the table: words, then hashed character n-grams")
      ->check(CLI::Range(kFewestRows, std::int64_t{2'000'000'000}));
  number("--batch", options.batch, "Centre words in a batch")->check(CLI::Range(1, 1'000'000));
  number("--window", options.window, "Words on each side that a word predicts, at most")->check(CLI::Range(1, 100));
  number("--negatives", options.negatives, "Negative samples that a batch shares")->check(CLI::Range(1, 100'000));
  number("--min-count", options.min_count, "Leave out words that occur less often")->check(CLI::PositiveNumber);
  number("--subsample", options.subsample, "Drop words at random that make up more than this share of the text")
      ->check(CLI::PositiveNumber);
  number("--rate", options.rate, "Learning rate at the start; falls linearly to a hundredth")
      ->check(CLI::PositiveNumber);
  app.add_option("--checkpoint", options.checkpoint,
                 "Save the state of training to FILE, at intervals and on Ctrl-C, and continue from it where it exists")
      ->type_name("FILE")
      ->check(program::writable_file());
  number("--checkpoint-every", options.checkpoint_every, "Batches between two saves")->check(CLI::PositiveNumber);
  app.add_flag("--restart", options.restart, "Train from the start even if the checkpoint exists");
  app.add_option("--vectors", options.vectors, "Write the vectors to FILE in word2vec's text format")
      ->type_name("FILE")
      ->check(program::writable_file());
  app.add_option("--neighbours", options.neighbours, "Print the nearest words of WORD; may be given several times")
      ->type_name("WORD");
}

void fit_rows_to_memory(Options& options) {
  const ferry::Bytes available = program::available_memory();
  const ferry::Bytes row{options.dim * 4};
  if (row * options.rows + kRest <= available) return;
  // A quarter stays free: other programs' needs change while this one runs.
  const std::int64_t fitting = std::max((available - kRest).count / 4 * 3 / row.count, kFewestRows);
  if (fitting >= options.rows) return;
  fmt::print("Notice: {} rows need {}, {} are free here; training with {} rows.\n", options.rows,
             ferry::to_string(row * options.rows), ferry::to_string(available), fitting);
  options.rows = fitting;
}

}  // namespace word_vectors
