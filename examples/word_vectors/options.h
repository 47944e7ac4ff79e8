// The options of word_vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/program.h"

namespace word_vectors {

struct Options {
  program::CommonOptions common;
  std::string text;  // file; "": Debian's fortunes
  std::int64_t epochs = 12;
  std::int64_t steps = 0;  // 0: as many as the epochs take
  std::int64_t dim = 150, rows = 10'000'000;
  bool rows_given = false;  // on the command line
  std::int64_t batch = 256, negatives = 256, min_count = 5;
  int window = 5;
  double rate = 0.1, subsample = 1e-4;
  std::string checkpoint;               // continued from where it exists
  std::int64_t checkpoint_every = 500;  // steps
  bool restart = false;                 // ignore an existing checkpoint
  std::string vectors;
  std::vector<std::string> neighbours;
};

// Throws, when the program's line is parsed: CLI::ParseError for values out of range.
void add_options(CLI::App& app, Options& options);

// Lowers options.rows to what fits the machine's free memory, with a notice, where the table does not.
void fit_rows_to_memory(Options& options);

}  // namespace word_vectors
