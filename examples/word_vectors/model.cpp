#include "word_vectors/model.h"

#include <algorithm>
#include <cmath>

#include <ferry/ferry.h>

namespace word_vectors {

using namespace ferry;

namespace {

// Cosines are divided by it, so that the context can stand out from hundreds of samples.
constexpr double kTemperature = 0.15;
constexpr std::int64_t kWordsPerPiece = 4096;

Tensor random_rows(std::int64_t rows, std::int64_t dim) {
  const double bound = 1 / std::sqrt(static_cast<double>(dim));
  return uniform({rows, dim}, -bound, bound);
}

Tensor create_table(std::int64_t rows, std::int64_t dim) {
  const DeviceGuard<cpu> guard;
  return named(random_rows(rows, dim), "table").set_requires_grad();
}

void append(RowLists& lists, std::span<const std::int32_t> rows) {
  lists.rows.insert(lists.rows.end(), rows.begin(), rows.end());
  lists.offsets.push_back(static_cast<std::int32_t>(lists.rows.size()));
}

}  // namespace

Model::Model(std::int64_t rows, std::int64_t words, std::int64_t dim)
    : table(create_table(rows, dim)), output(named(random_rows(words, dim), "output").set_requires_grad()) {}

Tensor Model::vectors(const RowLists& entries) const {
  const DeviceGuard<cpu> guard;
  const Tensor ids = named(from_vector(entries.rows), "ids");
  const std::vector<std::int32_t> starts(entries.offsets.begin(), entries.offsets.end() - 1);
  return embedding_bag(table, ids, from_vector(starts), BagMode::mean, GradientKind::row_sparse);
}

Tensor Model::loss(const Batch& batch, const RowLists& rows_of_words) const {
  RowLists entries;
  for (const std::int32_t word : batch.centres) append(entries, rows_of_words.of(word));
  const Tensor bags = named(vectors(entries), "bags");

  // From here on the GPU works; `bags` is all of the table that goes there.
  const Tensor centres = l2_normalize(bags) * (1 / kTemperature);
  const Tensor pair_centres = from_vector(batch.pair_centres);
  const Tensor contexts = l2_normalize(embedding(output, from_vector(batch.contexts), GradientKind::row_sparse));
  const Tensor positive = sum(embedding(centres, pair_centres) * contexts, {1}, true);
  const Tensor noise = l2_normalize(embedding(output, from_vector(batch.negatives), GradientKind::row_sparse));
  const Tensor negative = embedding(matmul(centres, transpose(noise)), pair_centres);
  const Tensor label = zeros({pair_centres.numel()}, DType::i64);  // the context is candidate 0
  return softmax_cross_entropy(concat({positive, negative}, 1), label, Reduction::sum);
}

std::vector<float> all_vectors(const Model& model, const RowLists& rows_of_words) {
  const NoGrad no_grad;
  std::vector<float> result;
  const auto words = static_cast<std::int64_t>(rows_of_words.offsets.size()) - 1;
  for (std::int64_t first = 0; first < words; first += kWordsPerPiece) {
    RowLists piece;
    for (std::int64_t word = first; word < std::min(first + kWordsPerPiece, words); ++word) {
      append(piece, rows_of_words.of(word));
    }
    const std::vector<float> values = model.vectors(piece).to_vector<float>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

}  // namespace word_vectors
