#include "swap/victim_pool.h"

#include <algorithm>
#include <cmath>

namespace ferry::swap {
namespace {

constexpr std::size_t kLeftOver = 16;
constexpr std::size_t kMostDraws = 96;
constexpr std::size_t kVisitsOfSampled = 16;

}  // namespace

void VictimPool::add(const Evictable& it, const Situation& at) {
  if (it.size < options_.minimum_size) return;
  const auto s = static_cast<std::size_t>(it.storage);
  if (s >= positions_.size()) positions_.resize(std::max(s + 1, positions_.size() * 2), kNone);
  positions_[s] = static_cast<std::int32_t>(entries_.size());
  entries_.push_back({it, ++sequence_});
  if (policy_.scores() != Policy::Scores::fixed) return;
  const auto later = [](const Scored& a, const Scored& b) { return b.before(a); };
  if (order_.size() > 64 + 4 * entries_.size()) {
    order_.clear();
    for (const Entry& entry : entries_) order_.push_back(scored(entry, at));
    std::ranges::make_heap(order_, later);
  } else {
    order_.push_back(scored(entries_.back(), at));
    std::ranges::push_heap(order_, later);
  }
}

void VictimPool::remove(StorageIndex storage) {
  const std::int32_t hole = position(storage);
  if (hole == kNone) return;
  entries_[static_cast<std::size_t>(hole)] = entries_.back();
  positions_[static_cast<std::size_t>(entries_.back().it.storage)] = hole;
  positions_[static_cast<std::size_t>(storage)] = kNone;
  entries_.pop_back();
}

std::optional<Evictable> VictimPool::choose(const Situation& at) {
  if (entries_.empty()) return std::nullopt;
  const auto entry = [&]() -> const Entry* {
    if (policy_.scores() == Policy::Scores::none) return draw();
    if (policy_.scores() == Policy::Scores::fixed) return choose_first_in_order();
    if (options_.sqrt_sampling || entries_.size() > options_.look_at_all) return choose_from_sample(at);
    return choose_among_all(at);
  }();
  return entry->it;
}

const VictimPool::Entry* VictimPool::draw() { return &entries_[random_() % entries_.size()]; }

const VictimPool::Entry* VictimPool::choose_first_in_order() {
  const auto later = [](const Scored& a, const Scored& b) { return b.before(a); };
  while (true) {
    const Scored& first = order_.front();
    const std::int32_t at = position(first.storage);
    if (at != kNone && entries_[static_cast<std::size_t>(at)].sequence == first.sequence)
      return &entries_[static_cast<std::size_t>(at)];
    std::ranges::pop_heap(order_, later);
    order_.pop_back();
  }
}

const VictimPool::Entry* VictimPool::choose_among_all(const Situation& at) {
  const Entry* best = &entries_.front();
  Scored least = scored(*best, at);
  for (const Entry& entry : entries_) {
    const Scored candidate = scored(entry, at);
    if (!candidate.before(least)) continue;
    least = candidate;
    best = &entry;
  }
  return best;
}

const VictimPool::Entry* VictimPool::choose_from_sample(const Situation& at) {
  Situation quick = at;
  quick.visit_limit = kVisitsOfSampled;
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(entries_.size())));
  const std::size_t draws = options_.sqrt_sampling ? std::clamp(root, std::size_t{1}, kMostDraws) : options_.sample;
  seen_.clear();
  for (const Scored& old : good_) {
    const std::int32_t place = position(old.storage);
    if (place != kNone) seen_.push_back(scored(entries_[static_cast<std::size_t>(place)], quick));
  }
  for (std::size_t i = 0; i < draws; ++i) seen_.push_back(scored(*draw(), quick));
  const auto before = [](const Scored& a, const Scored& b) { return a.before(b); };
  const std::size_t kept = std::min(seen_.size(), kLeftOver);
  std::ranges::partial_sort(seen_, seen_.begin() + static_cast<std::ptrdiff_t>(kept), before);
  seen_.resize(kept);
  const auto same = std::ranges::unique(seen_, {}, &Scored::storage);
  seen_.erase(same.begin(), same.end());
  std::swap(good_, seen_);
  return &entries_[static_cast<std::size_t>(position(good_.front().storage))];
}

}  // namespace ferry::swap
