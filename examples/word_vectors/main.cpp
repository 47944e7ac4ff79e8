// Learns vectors of words from text. The table of 10,000,000 rows stays on the CPU, the rest runs on the GPU.
#include <ferry/ferry.h>
#include <fmt/format.h>

#include "tools/common/interrupt.h"
#include "word_vectors/output.h"
#include "word_vectors/training.h"

namespace word_vectors {
namespace {

constexpr std::size_t kNeighbours = 8;

void print_start(const Options& options, const ferry::Runtime& runtime, const Vocabulary& vocabulary,
                 std::size_t documents) {
  fmt::print("word_vectors: skip-gram over words and their character n-grams\n");
  fmt::print("Place: {}; words/s are wall time\n", program::place_of(runtime));
  fmt::print("Text: {}, {} paragraphs, {} words of a vocabulary of {}\n",
             options.text.empty() ? "Debian's fortunes" : options.text, documents, vocabulary.total(),
             vocabulary.size());
  fmt::print("Table: {} x {} f32, {}, on the CPU; output vectors ({}) and loss on the {}\n", options.rows, options.dim,
             ferry::to_string(ferry::Bytes{options.rows * options.dim * 4}),
             ferry::to_string(ferry::Bytes{vocabulary.size() * options.dim * 4}),
             runtime.default_device().is_gpu() ? "GPU" : "CPU too");
  std::fflush(stdout);
}

nlohmann::ordered_json print_neighbours(const Options& options, const Model& model, const Vocabulary& vocabulary,
                                        const std::vector<float>& vectors) {
  auto figures = nlohmann::ordered_json::object();
  const std::vector<std::string> demonstration = {"love", "money", "computer", "government", "programmer"};
  for (const std::string& word : options.neighbours.empty() ? demonstration : options.neighbours) {
    if (options.neighbours.empty() && vocabulary.find(word) < 0) continue;
    fmt::print("{:>12}{}:", word, vocabulary.find(word) < 0 ? " (not in the text)" : "");
    for (const Neighbour& neighbour : nearest(word, kNeighbours, model, vocabulary, vectors)) {
      fmt::print(" {} {:.2f}", neighbour.word, neighbour.score);
      figures[word].push_back({{"word", neighbour.word}, {"score", neighbour.score}});
    }
    fmt::print("\n");
  }
  return figures;
}

int run(Options& options, program::StepProfiler& profiler) {
  ferry::Runtime runtime{{.device = options.common.device, .seed = options.common.seed}};
  const std::vector<Document> documents = read_documents(options.text);
  const Vocabulary vocabulary(documents, options.min_count);
  const auto saved_rows = options.restart ? std::nullopt : rows_in_checkpoint(options.checkpoint);
  if (saved_rows && options.rows_given && options.rows != *saved_rows) {
    throw ferry::InvalidArgument(
        fmt::format("{} was made with --rows {}, this run has {}: use the same, or start anew with --restart",
                    options.checkpoint, *saved_rows, options.rows));
  }
  if (saved_rows) options.rows = *saved_rows;
  if (!saved_rows) fit_rows_to_memory(options);
  if (options.rows <= vocabulary.size()) {
    throw ferry::InvalidArgument(
        fmt::format("{} rows are too few: the vocabulary alone needs {}", options.rows, vocabulary.size()));
  }
  print_start(options, runtime, vocabulary, documents.size());

  const RowLists rows_of_words = rows_of_vocabulary(vocabulary, options.rows);
  Model model(options.rows, vocabulary.size(), options.dim);
  program::Throughput throughput(runtime, "words");
  const TrainingFigures figures = train(options, documents, vocabulary, rows_of_words, model, profiler, throughput);
  profiler.finish();
  const TrainingState& state = figures.state;
  fmt::print("{} batches, {:.0f} words, {:.0f} words/s wall; loss of a pair: {:.4f} at first, {:.4f} now\n",
             state.position.step, figures.words, figures.words_per_second, state.first_loss, state.loss);
  fmt::print("{}\n", throughput.text());
  if (figures.outcome == Outcome::interrupted) {
    fmt::print("Interrupted. {}\n", options.checkpoint.empty() ? "Nothing was saved: there is no --checkpoint."
                                                               : "The same command continues.");
    return program::kInterruptedExitCode;
  }

  const std::vector<float> vectors = all_vectors(model, rows_of_words);
  if (!options.vectors.empty()) {
    write_vectors(options.vectors, vocabulary, vectors);
    fmt::print("Vectors: {}, word2vec text format\n", options.vectors);
  }
  fmt::print("Nearest words, with the cosine of the angle between the vectors:\n");
  auto json = program::runtime_figures(runtime);
  json["words_in_text"] = vocabulary.total();
  json["vocabulary"] = vocabulary.size();
  json["rows"] = options.rows;
  json["dim"] = options.dim;
  json["table_bytes"] = options.rows * options.dim * 4;
  json["steps"] = state.position.step;
  json["words_trained"] = figures.words;
  json["words_per_second_wall"] = figures.words_per_second;
  throughput.add_to(json);
  json["loss"] = {{"first", state.first_loss}, {"last", state.loss}};
  json["neighbours"] = print_neighbours(options, model, vocabulary, vectors);
  program::write_figures(options.common.json, json);
  return 0;
}

}  // namespace
}  // namespace word_vectors

int main(int argc, char** argv) {
  CLI::App app{"Learns vectors of words from text, with the embedding table on the CPU.", "word_vectors"};
  word_vectors::Options options;
  program::StepProfiler profiler;
  word_vectors::add_options(app, options);
  profiler.add_options(app);
  return program::run_program(app, argc, argv, [&] {
    options.rows_given = app.count("--rows") > 0;
    return word_vectors::run(options, profiler);
  });
}
