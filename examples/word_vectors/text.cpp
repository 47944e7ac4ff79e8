#include "word_vectors/text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <ferry/error.h>
#include <fmt/format.h>

namespace word_vectors {
namespace {

constexpr const char* kFortunes = "/usr/share/games/fortunes";
constexpr std::size_t kShortest = 3, kLongest = 6;  // characters of an n-gram

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw ferry::InvalidArgument(fmt::format("cannot read {}", path.string()));
  return text;
}

// Bytes above 127 belong to letters of UTF-8 text.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_start_of_character(char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80; }

void add_words(std::string_view line, Document& document) {
  std::string word;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    const bool inside =
        i < line.size() &&
        (is_letter(line[i]) || (line[i] == '\'' && !word.empty() && i + 1 < line.size() && is_letter(line[i + 1])));
    if (inside) {
      word += lower(line[i]);
    } else if (!word.empty()) {
      document.push_back(std::move(word));
      word.clear();
    }
  }
}

// "%" alone on its line parts fortunes, an empty line paragraphs.
void add_documents(std::string_view text, std::vector<Document>& documents) {
  Document document;
  const auto finish = [&] {
    if (document.size() > 1) documents.push_back(std::move(document));
    document.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line == "%" || line.find_first_not_of(" \t\r") == std::string_view::npos) finish();
    add_words(line, document);
  }
  finish();
}

std::vector<std::filesystem::path> fortune_files() {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(kFortunes, missing)) {
    const bool index = entry.path().extension() == ".dat" || entry.path().extension() == ".u8";
    if (entry.is_regular_file() && !entry.is_symlink() && !index) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    throw ferry::InvalidArgument(
        fmt::format("no text in {}: install Debian's package fortunes, or name a text with --text FILE", kFortunes));
  }
  return files;
}

std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

std::vector<Document> read_documents(const std::string& path) {
  std::vector<Document> documents;
  if (path.empty()) {
    for (const std::filesystem::path& file : fortune_files()) add_documents(read_file(file), documents);
  } else {
    add_documents(read_file(path), documents);
  }
  return documents;
}

Vocabulary::Vocabulary(std::span<const Document> documents, std::int64_t min_count) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const Document& document : documents) {
    for (const std::string& word : document) ++counts[word];
  }
  std::vector<std::pair<std::int64_t, std::string>> frequent;
  for (auto& [word, count] : counts) {
    if (count >= min_count) frequent.emplace_back(count, word);
  }
  if (frequent.size() < 2) {
    throw ferry::InvalidArgument(
        fmt::format("the text has {} words that occur {} times; two are needed", frequent.size(), min_count));
  }
  std::sort(frequent.begin(), frequent.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (auto& [count, word] : frequent) {
    ids_[word] = static_cast<std::int32_t>(words_.size());
    words_.push_back(std::move(word));
    counts_.push_back(count);
    total_ += count;
  }
}

std::int32_t Vocabulary::find(const std::string& word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? -1 : found->second;
}

std::span<const std::int32_t> RowLists::of(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  return std::span(rows).subspan(static_cast<std::size_t>(offsets[at]),
                                 static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
}

std::vector<std::int32_t> rows_of_word(const std::string& word, const Vocabulary& vocabulary, std::int64_t rows) {
  std::vector<std::int32_t> result;
  if (const std::int32_t id = vocabulary.find(word); id >= 0) result.push_back(id);
  const std::string marked = '<' + word + '>';
  std::vector<std::size_t> starts;  // of characters, and the end
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (is_start_of_character(marked[i])) starts.push_back(i);
  }
  starts.push_back(marked.size());
  const auto buckets = static_cast<std::uint32_t>(rows - vocabulary.size());
  for (std::size_t first = 0; first + 1 < starts.size(); ++first) {
    for (std::size_t n = kShortest; n <= kLongest && first + n < starts.size(); ++n) {
      const std::string_view gram = std::string_view(marked).substr(starts[first], starts[first + n] - starts[first]);
      result.push_back(static_cast<std::int32_t>(vocabulary.size() + fnv1a(gram) % buckets));
    }
  }
  return result;
}

RowLists rows_of_vocabulary(const Vocabulary& vocabulary, std::int64_t rows) {
  RowLists lists;
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) {
    const std::vector<std::int32_t> word = rows_of_word(vocabulary.word(id), vocabulary, rows);
    lists.rows.insert(lists.rows.end(), word.begin(), word.end());
    lists.offsets.push_back(static_cast<std::int32_t>(lists.rows.size()));
  }
  return lists;
}

}  // namespace word_vectors
