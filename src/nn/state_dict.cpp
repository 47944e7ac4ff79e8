#include "src/nn/state_dict.h"

#include <map>

#include <ferry/no_grad.h>
#include "src/base/check.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::nn {
namespace {

// PyTorch's batch norms count their batches, for an average that ferry does not offer.
bool is_counter(std::string_view name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

bool fits(const OfferedTensor& offered, const Tensor& wanted, const LoadOptions& options) {
  const bool converted = options.convert && is_floating(offered.dtype) && is_floating(wanted.dtype());
  return offered.shape == wanted.shape() && (offered.dtype == wanted.dtype() || converted);
}

}  // namespace

Match match_state(const std::vector<NamedTensor>& state, const std::vector<OfferedTensor>& offered,
                  const LoadOptions& options, std::string_view source, const MatchFailure& fail) {
  std::map<std::string_view, std::size_t> left;
  for (std::size_t i = 0; i < offered.size(); ++i) left.emplace(offered[i].name, i);
  Match match;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto found = left.find(state[i].name);
    if (found == left.end()) {
      if (options.strict) fail(fmt::format("tensor '{}' of the module is not in {}", state[i].name, source), -1);
      match.report.missing.push_back(state[i].name);
      continue;
    }
    const OfferedTensor& candidate = offered[found->second];
    if (!fits(candidate, state[i].tensor, options)) {
      fail(fmt::format("tensor '{}' is {} {}, the module's is {}", candidate.name, name_of(candidate.dtype),
                       to_string(candidate.shape), describe(state[i].tensor)),
           static_cast<std::ptrdiff_t>(found->second));
    }
    match.pairs.emplace_back(i, found->second);
    left.erase(found);
  }
  for (std::size_t i = 0; i < offered.size(); ++i) {
    if (!left.contains(offered[i].name) || is_counter(offered[i].name)) continue;
    if (options.strict) {
      fail(fmt::format("tensor '{}' of {} is not in the module", offered[i].name, source),
           static_cast<std::ptrdiff_t>(i));
    }
    match.report.unexpected.push_back(offered[i].name);
  }
  return match;
}

LoadReport load_state_dict(Module& module, const std::vector<NamedTensor>& state, const LoadOptions& options) {
  std::vector<OfferedTensor> offered;
  for (const NamedTensor& each : state) {
    FERRY_CHECK(each.tensor.defined(), InvalidArgument, "load_state_dict: '{}' is an undefined tensor", each.name);
    offered.push_back({each.name, each.tensor.dtype(), each.tensor.shape()});
  }
  const std::vector<NamedTensor> own = module.state_dict();
  const Match match = match_state(own, offered, options, "the state dict", [](const std::string& what, std::ptrdiff_t) {
    throw InvalidArgument("load_state_dict: " + what);
  });
  const NoGrad no_grad;
  for (const auto& [target, source] : match.pairs) Tensor(own[target].tensor).copy_(state[source].tensor);
  return match.report;
}

}  // namespace ferry::nn
