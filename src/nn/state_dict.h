// Which of the tensors on offer goes into which tensor of a module.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ferry/nn_module.h>

namespace ferry::nn {

struct OfferedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

struct Match {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // (of the module's state dict, of those on offer)
  LoadReport report;
};

// `fail` throws; it gets what is wrong, and which of those on offer it is about (-1: none).
using MatchFailure = std::function<void(const std::string& what, std::ptrdiff_t offered)>;

// `source` is what offers the tensors, for messages: "the file". Throws: what `fail` throws, unless everything fits.
Match match_state(const std::vector<NamedTensor>& state, const std::vector<OfferedTensor>& offered,
                  const LoadOptions& options, std::string_view source, const MatchFailure& fail);

}  // namespace ferry::nn
