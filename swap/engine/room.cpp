#include "swap/engine/room.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace ferry::swap {

Room::Room(EngineState& state, Mechanism& mechanism, History& history, Transfers& transfers)
    : state_(state),
      mechanism_(mechanism),
      history_(history),
      transfers_(transfers),
      policy_(make_policy(state.options.policy)),
      pool_(*policy_, state.options.victims) {
  if (state.options.threshold.count > 0) begin_shortage();
}

void Room::begin_shortage() {
  was_short_ = true;
  if (is_short_) return;
  is_short_ = true;
  history_.keep_neighborhood();
  for (Value* value : history_.values())
    if (value != nullptr) offer(*value);
}

bool Room::may_leave(const Value& value) const {
  if (value.locks > 0 || value.stays || value.is_leaving || state_.finished || !transfers_.is_resident(value))
    return false;
  if (transfers_.has_host_copy(value)) return true;
  if (state_.options.methods != Methods::swap && value.producer != nullptr) return true;
  return state_.options.methods != Methods::recompute && state_.options.link.exists();
}

Evictable Room::evictable(const Value& value) const {
  const Link& link = state_.options.link;
  const Nanoseconds out = transfers_.has_host_copy(value) ? Nanoseconds{} : link.out_time(value.size);
  return {.storage = value.index,
          .size = value.size,
          .last_access = value.last_access,
          .recomputable = value.producer != nullptr,
          .swap_time = link.exists() ? out + link.in_time(value.size) : Nanoseconds{}};
}

Situation Room::situation() const {
  return {.now = state_.now,
          .methods = state_.options.methods,
          .neighborhood = history_.neighborhood(),
          .link_wait = transfers_.link_wait()};
}

void Room::offer_if_it_may_leave(Value& value) {
  if (may_leave(value) && !pool_.contains(value.index)) pool_.add(evictable(value), situation());
}

void Room::take_from_leaving(Value& value) noexcept {
  if (leaving_.front() == &value) {
    leaving_.pop_front();
  } else {
    std::erase(leaving_, &value);
  }
  value.is_leaving = false;
}

void Room::forget_leaving() noexcept {
  for (Value* value : leaving_) value->is_leaving = false;
  leaving_.clear();
}

bool Room::copy_out(Value& value) {
  if (transfers_.copy_out(value)) return true;
  refusal_ = "There is no more host memory for swapped tensors";
  return false;
}

void Room::leave(Value& value) {
  if (!may_leave(value) || !copy_out(value)) return;
  withdraw(value);
  value.is_leaving = true;
  leaving_.push_back(&value);
  ++state_.stats.evictions;
}

void Room::drop(Value& value) {
  const bool is_needless = value.storage == nullptr && value.readers == nullptr;
  if (value.locks > 0 || value.bytes() == nullptr || (value.producer == nullptr && !is_needless)) return;
  stop_leaving(value);
  withdraw(value);
  if (!has_bytes(value)) return;
  ferry::Storage& bytes = *value.bytes();
  bytes.remove(state_.options.device);
  if (value.is_home) {
    bytes.remove(cpu::device);
    transfers_.discard_file(value);
  }
  if (has_bytes(value)) return;
  if (value.storage == nullptr) value.own.reset();
  ++state_.stats.evictions;
  history_.mark_evicted(value);
}

void Room::end_iteration() {
  free_unneeded();
  for (Value* value : history_.values())
    if (value != nullptr && value->storage == nullptr && value->own != nullptr && value->producer != nullptr)
      drop(*value);
  if (std::exchange(some_refused_, false)) {
    for (Value* value : history_.values())
      if (value != nullptr) offer(*value);
  }
}

// What cannot be given back is leaving still.
void Room::finish_leaving(Value& value) {
  transfers_.give_back(value);
  take_from_leaving(value);
}

bool Room::give_back_leaving(Bytes missing) {
  if (leaving_.empty()) return false;
  for (Bytes given{}; !leaving_.empty() && given < missing;) {
    given += leaving_.front()->size;
    finish_leaving(*leaving_.front());
  }
  return true;
}

// Bytes without a storage that nothing absent needs: what was computed from them cannot be computed again after this.
bool Room::free_unneeded() {
  bool freed = false;
  // Dead values leave the list when they are buried; a cut may kill others than its own.
  history_.bury();
  for (std::size_t i = 0; i < history_.unrepeatable().size();) {
    Value& value = *history_.unrepeatable()[i];
    if (value.own == nullptr || value.locks > 0 || !history_.absent_that_need(value).empty()) {
      ++i;
      continue;
    }
    withdraw(value);
    history_.cut(value);  // the value itself waits to be buried
    value.own.reset();
    freed = true;
    history_.bury();
  }
  return freed;
}

bool Room::evict(Value& value) {
  withdraw(value);
  try {
    if (evict_withdrawn(value)) return true;
  } catch (...) {
    offer(value);
    throw;
  }
  // It is not asked again until it is used, or the iteration ends.
  some_refused_ = true;
  return false;
}

// Whether it can be computed again beside a call of its size that waits for it. Of a long chain the last calls count.
bool Room::needs_little_room(const Value& value) const {
  constexpr std::int64_t kPart = 2;
  constexpr std::size_t kLooks = 16;
  if (state_.options.budget.count == 0) return true;
  std::array<const Value*, kLooks> absent{&value};
  std::size_t known = 1;
  for (std::size_t look = 0; look < known; ++look) {
    const Producer& producer = *absent[look]->producer;
    Bytes bytes;
    for (const Operand& operand : producer.operands) {
      if (operand.value == nullptr) continue;
      bytes += operand.value->size;
      const bool is_absent = operand.value->is_evicted && operand.value->producer != nullptr;
      if (is_absent && known < kLooks) absent[known++] = operand.value;
    }
    for (std::size_t i = 0; i < producer.result_count; ++i)
      if (producer.results[i] != nullptr) bytes += producer.results[i]->size;
    if (bytes.count > state_.options.budget.count / kPart) return false;
  }
  return true;
}

bool Room::evict_withdrawn(Value& value) {
  const Methods methods = state_.options.methods;
  const bool may_swap =
      transfers_.has_host_copy(value) || (methods != Methods::recompute && state_.options.link.exists());
  const bool may_recompute =
      methods != Methods::swap && value.producer != nullptr && (!may_swap || needs_little_room(value));
  bool swaps = may_swap;
  if (may_swap && may_recompute) {
    const Situation at = situation();
    const Nanoseconds recompute =
        history_.neighborhood().own_cost(value.index) + history_.neighborhood().neighbors_cost(value.index);
    swaps = swap_cost(evictable(value), at) < recompute;
  }
  if (swaps && copy_out(value)) {
    ++state_.stats.evictions;
    transfers_.give_back(value);
    return true;
  }
  if (!may_recompute) return false;
  drop(value);
  return true;
}

bool Room::choose_and_evict() {
  for (;;) {
    const std::optional<Evictable> victim = timed([&] { return pool_.choose(situation()); });
    if (!victim) return false;
    ++state_.stats.decisions;
    if (evict(*history_.at(victim->storage))) return true;
  }
}

void Room::keep_threshold() {
  const Bytes threshold = state_.options.threshold;
  while (threshold.count > 0 && mechanism_.allocated() > threshold && choose_and_evict()) {
  }
}

Room::Residents Room::residents() const {
  Residents result;
  for (Value* value : history_.values()) {
    if (value == nullptr || !transfers_.is_resident(*value)) continue;
    result.emplace(value->bytes()->find(state_.options.device)->allocation.data, value);
  }
  return result;
}

// No call has its address.
bool Room::may_move(const Value& value) const { return value.pins == 0; }

// The compute stream would wait for it.
bool Room::is_coming_in(const Value& value) const {
  return value.bytes()->find(state_.options.device)->pending.value >= 0;
}

bool Room::move(Value& value, void* address) {
  if (value.is_leaving || !may_move(value) || is_coming_in(value) || !mechanism_.move(*value.bytes(), address))
    return false;
  state_.stats.bytes_moved += value.size;
  return true;
}

void Room::place(Value& value, void* address) {
  const void* const now = transfers_.address(value);
  if (now == nullptr || address == nullptr || now == address || value.is_leaving) return;
  clear(address, value.size);
  if (mechanism_.move(*value.bytes(), address)) state_.stats.bytes_placed += value.size;
}

void Room::let_leave() {
  while (!leaving_.empty()) finish_leaving(*leaving_.front());
}

void Room::clear(const void* address, Bytes size) {
  const auto* const begin = static_cast<const std::byte*>(address);
  const auto lies_there = [&](const Value* value) {
    const auto* const at = static_cast<const std::byte*>(transfers_.address(*value));
    return at != nullptr && at < begin + size.count && begin < at + value->size.count;
  };
  for (auto next = std::ranges::find_if(leaving_, lies_there); next != leaving_.end();
       next = std::ranges::find_if(leaving_, lies_there))
    finish_leaving(**next);
  if (std::ranges::any_of(history_.unrepeatable(), lies_there)) free_unneeded();
}

// Moves what it may, so that `size` bytes fit in one place.
bool Room::compact(Bytes size, const Residents& residents, bool is_last_resort) {
  const auto owner = [&](void* address) {
    const auto resident = residents.find(address);
    const bool moves = resident != residents.end() && may_move(*resident->second) &&
                       (is_last_resort || !is_coming_in(*resident->second));
    return moves ? resident->second->bytes() : nullptr;
  };
  const std::optional<Bytes> moved = mechanism_.compact(size, owner, is_last_resort);
  state_.stats.bytes_moved += moved.value_or(Bytes{});
  // Room that was there before did not do.
  return moved.has_value() && (!is_last_resort || *moved > Bytes{});
}

struct SmallSegment {
  const std::byte *begin, *end;
  Bytes used{};
  std::vector<Value*> values{};  // in order of addresses

  bool has(const void* address) const { return address >= begin && address < end; }
};

// Those with values in them.
std::vector<SmallSegment> Room::small_segments(std::span<Value* const> values) const {
  std::vector<SmallSegment> segments;
  for (const auto& taken : mechanism_.arena().taken)
    if (const auto* const begin = static_cast<const std::byte*>(taken.address); taken.is_small_pool)
      segments.push_back({.begin = begin, .end = begin + taken.size.count});
  for (Value* const value : values) {
    const void* const address = transfers_.address(*value);
    const auto segment = std::ranges::find_if(segments, [&](const SmallSegment& each) { return each.has(address); });
    if (segment == segments.end()) continue;
    segment->used += value->size;
    segment->values.push_back(value);
  }
  std::erase_if(segments, [](const SmallSegment& segment) { return segment.values.empty(); });
  return segments;
}

// Of the segments of the small pool the one with least in it whose values find room in others.
bool Room::empty_small_segment(const Residents& residents) {
  std::vector<Value*> values;
  for (const auto& [address, value] : residents)
    if (transfers_.address(*value) == address) values.push_back(value);
  std::ranges::sort(values, {}, [this](const Value* value) { return transfers_.address(*value); });
  std::vector<SmallSegment> segments = small_segments(values);
  std::ranges::stable_sort(segments, {}, &SmallSegment::used);
  for (const SmallSegment& segment : segments) {
    // Where one is stuck or lands beside the others, the rest need not move.
    const bool is_empty = std::ranges::all_of(segment.values, [&](Value* value) {
      return move(*value, nullptr) && !segment.has(transfers_.address(*value));
    });
    // Not in a new one.
    if (is_empty && small_segments(values).size() < segments.size()) return true;
  }
  return false;
}

void Room::raise_small() {
  const Residents there = residents();
  state_.stats.bytes_moved += mechanism_.raise_small_segments([&](void* address) {
    const auto resident = there.find(address);
    if (resident == there.end()) return static_cast<ferry::Storage*>(nullptr);
    Value& value = *resident->second;
    // What has risen stays: another may lie where it was.
    return transfers_.address(value) == address && may_move(value) ? value.bytes() : nullptr;
  });
}

// Evicts neighbours, so that `size` bytes fit in one place.
bool Room::make_contiguous(Bytes size, const Residents& residents) {
  const Situation at = situation();
  const auto cost = [&](const void* address) {
    const auto owner = residents.find(address);
    if (owner == residents.end()) return std::numeric_limits<double>::infinity();
    const Value& value = *owner->second;
    if (value.is_leaving && value.locks == 0) return 0.0;
    if (!pool_.contains(value.index)) return std::numeric_limits<double>::infinity();
    const double score = policy_->score(evictable(value), at);
    return std::max(score, 0.0) * static_cast<double>(value.size.count) + 1e-9 * static_cast<double>(value.size.count);
  };
  const auto addresses = timed([&] { return mechanism_.cheapest_room(size, cost); });
  if (!addresses) return false;
  for (const void* address : *addresses) {
    Value& value = *residents.at(address);
    if (value.is_leaving) {
      finish_leaving(value);
    } else {
      ++state_.stats.decisions;
      if (!evict(value)) return false;
    }
  }
  return true;
}

// Free bytes lie in several places: makes one of them.
bool Room::gather(Bytes missing) {
  const Residents there = timed([this] { return residents(); });
  return compact(missing, there) || (!only_leaving_ && make_contiguous(missing, there));
}

// That looks at every resident: always where they are few, else so seldom that a shortage looks at a fixed number.
bool Room::is_time_to_gather() {
  constexpr std::int64_t kFew = 4096, kLooksAShortage = 32;
  looks_ += kLooksAShortage;
  if (history_.size() > kFew && looks_ < history_.size()) return false;
  looks_ = 0;
  return true;
}

bool Room::make_room(Bytes missing) {
  if (making_room_ || state_.finished) return false;
  struct Flag {
    bool& flag;
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
  } const flag(making_room_);
  refusal_.clear();
  begin_shortage();
  if (give_back_leaving(missing)) return true;
  if (!only_leaving_ && free_unneeded()) return true;
  const bool may_gather = mechanism_.free_bytes() >= missing;
  const bool gathers_first = may_gather && (only_leaving_ || is_time_to_gather());
  if (gathers_first && gather(missing)) return true;
  if (only_leaving_) return false;
  if (choose_and_evict() || (may_gather && !gathers_first && gather(missing))) return true;
  if (!may_gather) return false;
  const Residents there = residents();
  return compact(missing, there, true) || empty_small_segment(there);
}

}  // namespace ferry::swap
