#include "word_vectors/output.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include <ferry/ferry.h>
#include <fmt/format.h>

namespace word_vectors {

using namespace ferry;

void write_vectors(const std::string& path, const Vocabulary& vocabulary, const std::vector<float>& vectors) {
  const std::size_t dim = vectors.size() / static_cast<std::size_t>(vocabulary.size());
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary);
  file << fmt::format("{} {}\n", vocabulary.size(), dim);
  std::string line;
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) {
    line = vocabulary.word(id);
    const float* const values = vectors.data() + static_cast<std::size_t>(id) * dim;
    for (std::size_t i = 0; i < dim; ++i) fmt::format_to(std::back_inserter(line), " {:.6g}", values[i]);
    file << line << '\n';
  }
  std::error_code failed;
  if (file.flush()) std::filesystem::rename(temporary, path, failed);
  if (!file || failed) throw InvalidArgument(fmt::format("cannot write {}", path));
}

std::vector<Neighbour> nearest(const std::string& word, std::size_t count, const Model& model,
                               const Vocabulary& vocabulary, const std::vector<float>& vectors) {
  const NoGrad no_grad;
  RowLists query;
  query.rows = rows_of_word(word, vocabulary, model.table.size(0));
  query.offsets.push_back(static_cast<std::int32_t>(query.rows.size()));
  if (query.rows.empty()) throw InvalidArgument(fmt::format("'{}' is too short for neighbours", word));

  const Tensor all = l2_normalize(from_vector(vectors, {vocabulary.size(), model.table.size(1)}));
  const Tensor wanted = l2_normalize(model.vectors(query));
  const std::vector<float> scores = matmul(wanted, transpose(all)).to_vector<float>();

  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase(order, vocabulary.find(word));
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
                    });
  std::vector<Neighbour> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back({vocabulary.word(order[i]), scores[static_cast<std::size_t>(order[i])]});
  }
  return result;
}

}  // namespace word_vectors
