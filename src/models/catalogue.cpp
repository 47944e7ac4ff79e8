// The list of models.
#include <algorithm>

#include <fmt/ranges.h>

#include "src/base/check.h"
#include "src/models/families.h"

namespace ferry::models {
namespace {

constexpr std::span<const Entry> (*kFamilies[])() = {
    mlps,  lenets, vggs,       resnets,      densenets, inceptions, mobilenets, shufflenets,
    unets, lstms,  tree_lstms, transformers, berts,     gpt2s,      dlrms,      word2vecs,
};

std::vector<Entry> collected() {
  std::vector<Entry> entries;
  for (const auto family : kFamilies) {
    for (const Entry& entry : family()) entries.push_back(entry);
  }
  return entries;
}

void check(const Options& options) {
  FERRY_CHECK(is_floating(options.dtype), InvalidArgument, "models: dtype {} is not floating", name_of(options.dtype));
  FERRY_CHECK(options.classes >= 0 && options.image_size >= 0 && options.sequence_length >= 0 &&
                  options.checkpoint_segments >= kSquareRootSegments,
              InvalidArgument, "models: an option is negative");
}

}  // namespace

std::span<const Entry> all() {
  static const std::vector<Entry> entries = collected();
  return entries;
}

std::shared_ptr<Model> make(std::string_view name, const Options& options) {
  check(options);
  std::vector<std::string_view> names;
  for (const Entry& entry : all()) {
    if (entry.name == name) return entry.make(options);
    names.push_back(entry.name);
  }
  throw InvalidArgument(fmt::format("there is no model '{}'; there are {}", name, fmt::join(names, ", ")));
}

Tensor Model::logits(const Batch& batch, Where where) {
  return within(where, [&] { return logits_of(batch); });
}

Tensor Model::loss(const Batch& batch, Where where) {
  return within(where, [&] { return loss_of(batch); });
}

}  // namespace ferry::models
