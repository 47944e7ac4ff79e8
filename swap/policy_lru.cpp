// The least recently used first.
#include <limits>

#include "swap/policy.h"

namespace ferry::swap {
namespace {

class Lru final : public Policy {
 public:
  Scores scores() const override { return Scores::fixed; }
  double score(const Evictable& it, const Situation&) const override {
    return it.size.count > 0 ? static_cast<double>(it.last_access.count()) : std::numeric_limits<double>::infinity();
  }
};

}  // namespace

std::unique_ptr<Policy> make_lru_policy() { return std::make_unique<Lru>(); }

}  // namespace ferry::swap
