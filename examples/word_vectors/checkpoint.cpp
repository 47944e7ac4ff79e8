#include "word_vectors/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <ferry/ferry.h>
#include <fmt/format.h>

namespace word_vectors {

using namespace ferry;

namespace {

constexpr const char* kProgram = "word_vectors";

// What must be the same for a resumed run to continue as if it had not stopped.
Metadata settings_of(const Options& options, const Vocabulary& vocabulary) {
  std::uint64_t text = 14695981039346656037u;  // FNV-1a over the words and their counts
  const auto mix = [&](std::uint64_t value) { text = (text ^ value) * 1099511628211u; };
  for (std::int64_t id = 0; id < vocabulary.size(); ++id) {
    for (const char c : vocabulary.word(id)) mix(static_cast<unsigned char>(c));
    mix(static_cast<std::uint64_t>(vocabulary.counts()[static_cast<std::size_t>(id)]));
  }
  return {{"program", kProgram},
          {"text", fmt::format("{:016x}", text)},
          {"seed", fmt::to_string(options.common.seed)},
          {"rows", fmt::to_string(options.rows)},
          {"dim", fmt::to_string(options.dim)},
          {"batch", fmt::to_string(options.batch)},
          {"window", fmt::to_string(options.window)},
          {"negatives", fmt::to_string(options.negatives)},
          {"min-count", fmt::to_string(options.min_count)},
          {"subsample", fmt::to_string(options.subsample)}};
}

// The rows that words of the vocabulary use, each once.
std::vector<std::int32_t> used_rows(const RowLists& rows_of_words) {
  std::vector<std::int32_t> rows = rows_of_words.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

const std::string& text_at(const Metadata& metadata, const std::string& key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    throw ParseError(fmt::format("{}: no checkpoint of {}: '{}' is missing", path, kProgram, key));
  }
  return found->second;
}

template <class Number>
Number number_at(const Metadata& metadata, const std::string& key, const std::string& path) {
  const std::string& text = text_at(metadata, key, path);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ParseError(fmt::format("{}: '{}' is no number: {}", path, key, text));
  }
  return value;
}

const Tensor& tensor_at(const TensorFile& file, const std::string& name, DType dtype, const Shape& shape,
                        const std::string& path) {
  for (const nn::NamedTensor& entry : file.tensors) {
    if (entry.name == name && entry.tensor.dtype() == dtype && entry.tensor.shape() == shape) return entry.tensor;
  }
  throw ParseError(fmt::format("{}: no tensor '{}' of shape {}", path, name, to_string(shape)));
}

void require_same_settings(const Metadata& saved, const Metadata& now, const std::string& path) {
  for (const auto& [key, value] : now) {
    if (text_at(saved, key, path) == value) continue;
    throw InvalidArgument(
        fmt::format("{} was made with {} {}, this run has {}: use the same, or start anew with --restart", path,
                    key == "text" ? "text of fingerprint" : "--" + key, saved.at(key), value));
  }
}

}  // namespace

std::optional<std::int64_t> rows_in_checkpoint(const std::string& path) {
  if (path.empty() || !std::filesystem::exists(path)) return std::nullopt;
  return number_at<std::int64_t>(load_metadata(path), "rows", path);
}

void save_checkpoint(const std::string& path, const Options& options, const Vocabulary& vocabulary,
                     const RowLists& rows_of_words, const Model& model, const TrainingState& state) {
  const NoGrad no_grad;
  const DeviceGuard<cpu> guard;
  Metadata metadata = settings_of(options, vocabulary);
  metadata["epoch"] = fmt::to_string(state.position.epoch);
  metadata["block"] = fmt::to_string(state.position.block);
  metadata["centre"] = fmt::to_string(state.position.centre);
  metadata["step"] = fmt::to_string(state.position.step);
  metadata["loss"] = fmt::to_string(state.loss);
  metadata["first_loss"] = fmt::to_string(state.first_loss);
  const Tensor rows = from_vector(used_rows(rows_of_words));
  save_tensors(path, {{"table.rows", rows}, {"table.values", embedding(model.table, rows)}, {"output", model.output}},
               metadata);
}

TrainingState load_checkpoint(const std::string& path, const Options& options, const Vocabulary& vocabulary,
                              const RowLists& rows_of_words, Model& model) {
  const TensorFile file = load_tensors(path);
  require_same_settings(file.metadata, settings_of(options, vocabulary), path);
  const std::vector<std::int32_t> rows = used_rows(rows_of_words);
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor values = tensor_at(file, "table.values", DType::f32, {count, options.dim}, path);
  const Tensor output = tensor_at(file, "output", DType::f32, model.output.shape(), path);
  TrainingState state;
  state.position = {
      number_at<std::int64_t>(file.metadata, "epoch", path), number_at<std::int64_t>(file.metadata, "block", path),
      number_at<std::int64_t>(file.metadata, "centre", path), number_at<std::int64_t>(file.metadata, "step", path)};
  state.loss = number_at<double>(file.metadata, "loss", path);
  state.first_loss = number_at<double>(file.metadata, "first_loss", path);

  const NoGrad no_grad;
  model.output.copy_(output);
  for (std::int64_t i = 0; i < count; ++i) {
    select(model.table, 0, rows[static_cast<std::size_t>(i)]).copy_(select(values, 0, i));
  }
  return state;
}

}  // namespace word_vectors
