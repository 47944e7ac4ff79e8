#include "src/tensor/storage.h"

#include <utility>

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

void Storage::remove(Device device) noexcept {
  Replica* const gone = find(device);
  if (gone == nullptr) return;
  owner_->retire(*gone);
  if (gone != &first_) {
    others_.remove_if([&](const Replica& replica) { return &replica == gone; });
    return;
  }
  settled_.store(false, std::memory_order_release);
  first_ = {};
  if (others_.empty()) return;
  first_ = others_.front();
  others_.pop_front();
  settled_.store(first_.pending.value < 0, std::memory_order_release);
}

void Storage::exchange_replicas(Storage& other) noexcept {
  std::swap(first_, other.first_);
  others_.swap(other.others_);
  std::swap(is_being_copied_, other.is_being_copied_);
  settled_.store(first_.allocation.data != nullptr && first_.pending.value < 0, std::memory_order_release);
  other.settled_.store(other.first_.allocation.data != nullptr && other.first_.pending.value < 0,
                       std::memory_order_release);
}

}  // namespace ferry
