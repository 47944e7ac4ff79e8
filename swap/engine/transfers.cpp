#include "swap/engine/transfers.h"

namespace ferry::swap {

bool Transfers::has_host_copy(const Value& value) const {
  if (value.file != SpillFile::kNowhere) return true;
  ferry::Storage* const bytes = value.bytes();
  return bytes != nullptr && bytes->find(cpu::device) != nullptr;
}

bool Transfers::copy_out(Value& value) {
  if (has_host_copy(value)) return true;
  bool is_out = mechanism_.copy_out(*value.bytes());
  while (!is_out && spill_oldest()) is_out = mechanism_.copy_out(*value.bytes());
  if (!is_out) return false;
  state_.stats.bytes_out += value.size;
  out_.enqueue(state_.now, state_.options.link.out_time(value.size));
  return true;
}

void Transfers::copy_in(Value& value) {
  if (value.file != SpillFile::kNowhere) unspill(value);
  mechanism_.bring_in(*value.bytes());
  state_.stats.bytes_in += value.size;
  in_.enqueue(state_.now, state_.options.link.in_time(value.size));
}

void Transfers::give_back(Value& value) {
  if (value.storage == nullptr && !has_host_copy(value)) {
    value.own.reset();
  } else {
    mechanism_.give_back(*value.bytes());
  }
}

// What was used longest ago goes from host memory to the file.
bool Transfers::spill_oldest() {
  Value* oldest = nullptr;
  for (Value* value : history_.values()) {
    if (value == nullptr || value->locks > 0 || !value->is_home || value->file != SpillFile::kNowhere) continue;
    if (is_resident(*value) || !has_host_copy(*value)) continue;
    if (oldest == nullptr || value->last_access < oldest->last_access) oldest = value;
  }
  if (oldest == nullptr) return false;
  oldest->file = mechanism_.spill(*oldest->bytes());
  return oldest->file != SpillFile::kNowhere;
}

void Transfers::unspill(Value& value) {
  mechanism_.unspill(*value.bytes(), value.file);
  discard_file(value);
}

void Transfers::discard_file(Value& value) noexcept {
  if (value.file != SpillFile::kNowhere) mechanism_.discard(value.file, value.size);
  value.file = SpillFile::kNowhere;
}

}  // namespace ferry::swap
