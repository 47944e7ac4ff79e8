// What a trained model is good for: vectors as a file, and words that are close to one another.
#pragma once

#include <string>
#include <vector>

#include "word_vectors/model.h"

namespace word_vectors {

// word2vec's text format: a line "COUNT DIM", then for each word a line "WORD NUMBER …".
// Throws: ferry::InvalidArgument when the file cannot be written.
void write_vectors(const std::string& path, const Vocabulary& vocabulary, const std::vector<float>& vectors);

struct Neighbour {
  std::string word;
  double score;  // cosine
};

// The `count` words of the vocabulary closest to `word`, which need not be in it: its n-grams give its vector.
// Throws: ferry::InvalidArgument for a word without letters.
std::vector<Neighbour> nearest(const std::string& word, std::size_t count, const Model& model,
                               const Vocabulary& vocabulary, const std::vector<float>& vectors);

}  // namespace word_vectors
