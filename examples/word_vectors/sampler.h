// Turns documents into batches of skip-gram training pairs with negative samples.
//
// Every batch follows from the seed and the position alone, so that a run resumed at a position sees what the
// uninterrupted one would have seen.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "word_vectors/text.h"

namespace word_vectors {

// Centre words with the words around them. Ids are those of the vocabulary.
struct Batch {
  std::vector<std::int32_t> centres;       // [B]
  std::vector<std::int32_t> pair_centres;  // [P] position of the pair's centre in `centres`
  std::vector<std::int32_t> contexts;      // [P]
  std::vector<std::int32_t> negatives;     // [N], shared by the batch
};

struct SamplerOptions {
  std::int64_t batch;      // centres
  std::int64_t negatives;  // drawn for a batch
  int window;
  double subsample;  // words more frequent than this share are dropped at random
  std::uint64_t seed;
};

// Where training stands: epoch, block of documents, next centre of the block, batches drawn so far.
struct Position {
  std::int64_t epoch = 0, block = 0, centre = 0, step = 0;
};

class Sampler {
 public:
  Sampler(std::span<const Document> documents, const Vocabulary& vocabulary, SamplerOptions options);

  Batch next();
  const Position& position() const { return position_; }
  void seek(const Position& position);
  // Words of the text seen so far, dropped ones included.
  double words_seen() const;

 private:
  struct Pairs {
    std::int32_t word;
    std::size_t first, last;  // of contexts_
  };
  void shuffle_documents();
  void load_block();
  void add_pairs(std::span<const std::int32_t> document, std::mt19937_64& random);
  std::int64_t block_count() const;
  std::int32_t draw_negative(std::mt19937_64& random) const;

  std::vector<std::vector<std::int32_t>> documents_;  // words of the vocabulary
  std::vector<std::size_t> order_, block_starts_;     // documents in this epoch's order; positions where blocks start
  std::vector<double> words_before_;                  // of each block
  std::vector<Pairs> centres_;                        // of this block, shuffled
  std::vector<std::int32_t> contexts_;
  std::vector<double> keep_;       // probability, by word
  std::vector<double> noise_sum_;  // running sum of counts^0.75
  double total_words_ = 0;
  SamplerOptions options_;
  Position position_;
};

}  // namespace word_vectors
