// The cheaper of recomputing, with the evicted neighbourhood, and swapping, with the link's queue, over bytes ×
// staleness.
#include <algorithm>

#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Hybrid final : public Policy {
 public:
  double score(const Evictable& it, const Situation& at) const override {
    Nanoseconds cost = Nanoseconds::max();
    if (at.methods != Methods::recompute) cost = swap_cost(it, at);
    if (at.methods != Methods::swap && it.recomputable)
      cost = std::min(cost, at.neighborhood.own_cost(it.storage) + at.neighborhood.neighbors_cost(it.storage));
    return cost_over_size_and_staleness(cost, it, at);
  }
};

}  // namespace

std::unique_ptr<Policy> make_hybrid_policy() { return std::make_unique<Hybrid>(); }

}  // namespace ferry::swap
