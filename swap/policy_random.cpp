// Any, from a seed: what the others have to beat.
#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Random final : public Policy {
 public:
  Scores scores() const override { return Scores::none; }
  double score(const Evictable&, const Situation&) const override { return 0; }
};

}  // namespace

std::unique_ptr<Policy> make_random_policy() { return std::make_unique<Random>(); }

}  // namespace ferry::swap
