// Skip-gram with sampled softmax over words made of character n-grams: of a word's context and the batch's negative
// samples, the context should have the highest cosine with the word.
//
// The table is far larger than a GPU's memory: it stays on the CPU, and only the vectors of a batch's words cross.
#pragma once

#include <cstdint>
#include <span>

#include <ferry/tensor.h>

#include "word_vectors/sampler.h"

namespace word_vectors {

class Model {
 public:
  // rows: of the table; words: of the vocabulary.
  Model(std::int64_t rows, std::int64_t words, std::int64_t dim);

  // The vectors of entries made of table rows, [entries, dim], computed on the CPU.
  ferry::Tensor vectors(const RowLists& entries) const;
  // Summed over the pairs of a batch.
  ferry::Tensor loss(const Batch& batch, const RowLists& rows_of_words) const;

  ferry::Tensor table;   // [rows, dim] on the CPU
  ferry::Tensor output;  // [words, dim] on the GPU
};

// The vectors of the whole vocabulary, in pieces, for reading. [words, dim]
std::vector<float> all_vectors(const Model& model, const RowLists& rows_of_words);

}  // namespace word_vectors
