// The largest first.
#include <limits>

#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Largest final : public Policy {
 public:
  Scores scores() const override { return Scores::fixed; }
  double score(const Evictable& it, const Situation&) const override {
    return it.size.count > 0 ? 1 / static_cast<double>(it.size.count) : std::numeric_limits<double>::infinity();
  }
};

}  // namespace

std::unique_ptr<Policy> make_largest_policy() { return std::make_unique<Largest>(); }

}  // namespace ferry::swap
