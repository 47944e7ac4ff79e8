#include "src/tensor/storage.h"

namespace ferry {

void Storage::invalidate_others(const Replica& written) {
  if (others_.empty()) return;
  Replica kept = written;
  for_each([&](Replica& replica) {
    if (replica.device != kept.device) owner_->retire(replica);
  });
  others_.clear();
  first_ = kept;
  settled_.store(kept.pending.value < 0, std::memory_order_release);
}

}  // namespace ferry
