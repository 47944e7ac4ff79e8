// (own cost + cost of the evicted neighbourhood) / (bytes × staleness): h_DTR^eq of Kirisame et al., "Dynamic Tensor
// Rematerialization", ICLR 2021.
#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Dtr final : public Policy {
 public:
  double score(const Evictable& it, const Situation& at) const override {
    const Nanoseconds recompute = at.neighborhood.own_cost(it.storage) + at.neighborhood.neighbors_cost(it.storage);
    return cost_over_size_and_staleness(preferred_cost(recompute, it, at), it, at);
  }
};

}  // namespace

std::unique_ptr<Policy> make_dtr_policy() { return std::make_unique<Dtr>(); }

}  // namespace ferry::swap
