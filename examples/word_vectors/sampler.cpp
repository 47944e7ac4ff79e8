#include "word_vectors/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ferry/error.h>

namespace word_vectors {
namespace {

// Words of text that are turned into pairs at a time: bounds the memory that a large text needs.
constexpr std::size_t kBlockWords = 1'000'000;
// Negatives are drawn in proportion to count^0.75 (Mikolov et al. 2013).
constexpr double kNoisePower = 0.75;

// One stream of random numbers for each purpose and place.
std::mt19937_64 random_at(std::uint64_t seed, std::int64_t purpose, std::int64_t a, std::int64_t b = 0) {
  std::seed_seq sequence{seed, seed >> 32, static_cast<std::uint64_t>(purpose), static_cast<std::uint64_t>(a),
                         static_cast<std::uint64_t>(b)};
  return std::mt19937_64(sequence);
}

double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

std::size_t below(std::size_t bound, std::mt19937_64& random) {
  return static_cast<std::size_t>(unit(random) * static_cast<double>(bound));
}

template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i, random)]);
}

}  // namespace

Sampler::Sampler(std::span<const Document> documents, const Vocabulary& vocabulary, SamplerOptions options)
    : options_(options) {
  for (const Document& document : documents) {
    std::vector<std::int32_t> ids;
    for (const std::string& word : document) {
      if (const std::int32_t id = vocabulary.find(word); id >= 0) ids.push_back(id);
    }
    total_words_ += static_cast<double>(ids.size());
    if (ids.size() > 1) documents_.push_back(std::move(ids));
  }
  if (documents_.empty()) throw ferry::InvalidArgument("no paragraph of the text holds two words of the vocabulary");
  const auto total = static_cast<double>(vocabulary.total());
  double noise = 0;
  for (const std::int64_t count : vocabulary.counts()) {
    const double share = static_cast<double>(count) / total / options.subsample;
    keep_.push_back(std::min(1.0, (std::sqrt(share) + 1) / share));
    noise_sum_.push_back(noise += std::pow(static_cast<double>(count), kNoisePower));
  }
  shuffle_documents();
  load_block();
}

std::int64_t Sampler::block_count() const { return static_cast<std::int64_t>(block_starts_.size()) - 1; }

void Sampler::shuffle_documents() {
  order_.resize(documents_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::mt19937_64 random = random_at(options_.seed, 0, position_.epoch);
  shuffle(order_, random);
  block_starts_ = {0};
  words_before_ = {0};
  double words = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    words += static_cast<double>(documents_[order_[i]].size());
    if (words - words_before_.back() < static_cast<double>(kBlockWords) && i + 1 < order_.size()) continue;
    block_starts_.push_back(i + 1);
    words_before_.push_back(words);
  }
}

void Sampler::load_block() {
  std::mt19937_64 random = random_at(options_.seed, 1, position_.epoch, position_.block);
  centres_.clear();
  contexts_.clear();
  const auto block = static_cast<std::size_t>(position_.block);
  for (std::size_t i = block_starts_[block]; i < block_starts_[block + 1]; ++i) {
    std::vector<std::int32_t> kept;
    for (const std::int32_t word : documents_[order_[i]]) {
      if (unit(random) < keep_[static_cast<std::size_t>(word)]) kept.push_back(word);
    }
    add_pairs(kept, random);
  }
  shuffle(centres_, random);
}

void Sampler::add_pairs(std::span<const std::int32_t> document, std::mt19937_64& random) {
  const auto size = static_cast<std::int64_t>(document.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const auto reach = static_cast<std::int64_t>(1 + below(static_cast<std::size_t>(options_.window), random));
    const std::size_t first = contexts_.size();
    for (std::int64_t j = std::max<std::int64_t>(i - reach, 0); j <= std::min(i + reach, size - 1); ++j) {
      if (j != i) contexts_.push_back(document[static_cast<std::size_t>(j)]);
    }
    if (contexts_.size() > first) centres_.push_back({document[static_cast<std::size_t>(i)], first, contexts_.size()});
  }
}

std::int32_t Sampler::draw_negative(std::mt19937_64& random) const {
  const auto found = std::upper_bound(noise_sum_.begin(), noise_sum_.end(), unit(random) * noise_sum_.back());
  return static_cast<std::int32_t>(std::min(found, noise_sum_.end() - 1) - noise_sum_.begin());
}

Batch Sampler::next() {
  while (position_.centre >= static_cast<std::int64_t>(centres_.size())) {
    position_.centre = 0;
    if (++position_.block == block_count()) {
      position_.block = 0;
      ++position_.epoch;
      shuffle_documents();
    }
    load_block();
  }
  Batch batch;
  const std::int64_t end = std::min(position_.centre + options_.batch, static_cast<std::int64_t>(centres_.size()));
  for (; position_.centre < end; ++position_.centre) {
    const Pairs& pairs = centres_[static_cast<std::size_t>(position_.centre)];
    for (std::size_t i = pairs.first; i < pairs.last; ++i) {
      batch.pair_centres.push_back(static_cast<std::int32_t>(batch.centres.size()));
      batch.contexts.push_back(contexts_[i]);
    }
    batch.centres.push_back(pairs.word);
  }
  std::mt19937_64 random = random_at(options_.seed, 2, position_.step++);
  for (std::int64_t i = 0; i < options_.negatives; ++i) batch.negatives.push_back(draw_negative(random));
  return batch;
}

void Sampler::seek(const Position& position) {
  position_ = position;
  shuffle_documents();
  load_block();
}

double Sampler::words_seen() const {
  const auto block = static_cast<std::size_t>(position_.block);
  const double block_words = words_before_[block + 1] - words_before_[block];
  const double share =
      centres_.empty() ? 1 : static_cast<double>(position_.centre) / static_cast<double>(centres_.size());
  return static_cast<double>(position_.epoch) * total_words_ + words_before_[block] + share * block_words;
}

}  // namespace word_vectors
