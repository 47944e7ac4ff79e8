// own cost / (bytes × staleness): h_DTR^local of the DTR paper, without neighbours.
#include "swap/policy.h"

namespace ferry::swap {
namespace {

class DtrLocal final : public Policy {
 public:
  double score(const Evictable& it, const Situation& at) const override {
    return cost_over_size_and_staleness(preferred_cost(at.neighborhood.own_cost(it.storage), it, at), it, at);
  }
};

}  // namespace

std::unique_ptr<Policy> make_dtr_local_policy() { return std::make_unique<DtrLocal>(); }

}  // namespace ferry::swap
