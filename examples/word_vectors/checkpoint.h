// The state of a training run in a file.
//
// Of the table only the rows that words of the vocabulary use are saved: all others are as the seed made them. Millions
// of rows that never change would make a file of gigabytes.
#pragma once

#include <optional>
#include <string>

#include <ferry/safetensors.h>

#include "word_vectors/model.h"
#include "word_vectors/options.h"

namespace word_vectors {

// What training carries from batch to batch besides the model.
struct TrainingState {
  Position position;
  double loss = 0;        // running average for each pair
  double first_loss = 0;  // the first one measured
};

// The number of table rows that a checkpoint was made with; nothing where the file does not exist.
// Throws: ferry::ParseError for another file than a checkpoint.
std::optional<std::int64_t> rows_in_checkpoint(const std::string& path);

void save_checkpoint(const std::string& path, const Options& options, const Vocabulary& vocabulary,
                     const RowLists& rows_of_words, const Model& model, const TrainingState& state);

// Gives `model` the saved elements and returns the state. Throws: ferry::InvalidArgument when the checkpoint was made
// with another text or other options than these, naming them; ferry::ParseError.
TrainingState load_checkpoint(const std::string& path, const Options& options, const Vocabulary& vocabulary,
                              const RowLists& rows_of_words, Model& model);

}  // namespace word_vectors
