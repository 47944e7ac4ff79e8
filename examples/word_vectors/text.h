// Real text as numbers: documents of words, the vocabulary, and the rows of the table that each word is made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace word_vectors {

// A fortune or a paragraph; context windows stay inside.
using Document = std::vector<std::string>;

// The documents of `path`, or of Debian's fortunes when it is empty. Words are lower case; other characters than
// letters and apostrophes inside words part them. Throws: ferry::InvalidArgument saying what to install or change.
std::vector<Document> read_documents(const std::string& path);

// Words that occur often enough, the most frequent first.
class Vocabulary {
 public:
  // Throws: ferry::InvalidArgument when fewer than two words occur `min_count` times.
  Vocabulary(std::span<const Document> documents, std::int64_t min_count);

  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  const std::string& word(std::int64_t id) const { return words_[static_cast<std::size_t>(id)]; }
  std::span<const std::int64_t> counts() const { return counts_; }
  std::int64_t total() const { return total_; }
  // -1 for a word that is not in it.
  std::int32_t find(const std::string& word) const;

 private:
  std::vector<std::string> words_;
  std::vector<std::int64_t> counts_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::int64_t total_ = 0;
};

// Lists of rows, one after the other: those of entry i are rows[offsets[i] … offsets[i + 1]).
struct RowLists {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> offsets = {0};
  std::span<const std::int32_t> of(std::int64_t i) const;
};

// The rows of a word: its own if it is in the vocabulary, then those of its character n-grams of 3 to 6 characters,
// hashed into the rows after the vocabulary (Bojanowski et al. 2017). `rows` is the table's height.
std::vector<std::int32_t> rows_of_word(const std::string& word, const Vocabulary& vocabulary, std::int64_t rows);
// Those of the whole vocabulary.
RowLists rows_of_vocabulary(const Vocabulary& vocabulary, std::int64_t rows);

}  // namespace word_vectors
