// (own cost + cost of evicted ancestors) / bytes: memory saved per second of recomputation, as in Peng et al.,
// "Capuchin", ASPLOS 2020, in the form that the DTR paper compares with.
#include <limits>

#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Msps final : public Policy {
 public:
  double score(const Evictable& it, const Situation& at) const override {
    if (it.size.count == 0) return std::numeric_limits<double>::infinity();
    const Nanoseconds recompute =
        at.neighborhood.own_cost(it.storage) + at.neighborhood.ancestors_cost(it.storage, at.visit_limit);
    return static_cast<double>(preferred_cost(recompute, it, at).count()) / static_cast<double>(it.size.count);
  }
};

}  // namespace

std::unique_ptr<Policy> make_msps_policy() { return std::make_unique<Msps>(); }

}  // namespace ferry::swap
