#include <fmt/ranges.h>

#include <array>
#include <limits>

#include "src/base/check.h"
#include "swap/policy.h"

namespace ferry::swap {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
};

constexpr std::array kPolicies = {
    Entry{"dtr", make_dtr_policy},       Entry{"dtr_local", make_dtr_local_policy}, Entry{"msps", make_msps_policy},
    Entry{"lru", make_lru_policy},       Entry{"largest", make_largest_policy},     Entry{"random", make_random_policy},
    Entry{"hybrid", make_hybrid_policy},
};

}  // namespace

Methods parse_methods(std::string_view text) {
  if (text == "recompute") return Methods::recompute;
  if (text == "swap") return Methods::swap;
  if (text == "both") return Methods::both;
  throw InvalidArgument(fmt::format("'{}' is no method; there are recompute, swap and both", text));
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (const Entry& entry : kPolicies)
    if (entry.name == name) return entry.make();
  throw InvalidArgument(fmt::format("'{}' is no eviction policy; there are {}", name, fmt::join(policy_names(), ", ")));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

double cost_over_size_and_staleness(Nanoseconds cost, const Evictable& it, const Situation& at) {
  const double scale = static_cast<double>(it.size.count) * static_cast<double>((at.now - it.last_access).count());
  return scale > 0 ? static_cast<double>(cost.count()) / scale : std::numeric_limits<double>::infinity();
}

Nanoseconds preferred_cost(Nanoseconds recompute, const Evictable& it, const Situation& at) {
  return at.methods == Methods::swap || !it.recomputable ? swap_cost(it, at) : recompute;
}

}  // namespace ferry::swap
