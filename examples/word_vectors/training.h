// The training loop: batches, losses, updates, checkpoints.
#pragma once

#include "tools/common/profiling.h"
#include "tools/common/throughput.h"
#include "word_vectors/checkpoint.h"

namespace word_vectors {

enum class Outcome { finished, interrupted };

struct TrainingFigures {
  TrainingState state;
  double words = 0;             // of the text seen, earlier runs included
  double words_per_second = 0;  // of this run, wall time
  Outcome outcome = Outcome::finished;
};

// Trains `model` until the options' epochs or steps are done or Ctrl-C is pressed. Saves to the options' checkpoint and
// starts from it where it exists.
TrainingFigures train(const Options& options, std::span<const Document> documents, const Vocabulary& vocabulary,
                      const RowLists& rows_of_words, Model& model, program::StepProfiler& profiler,
                      program::Throughput& throughput);

}  // namespace word_vectors
