#include "swap/lookahead.h"

#include <algorithm>
#include <cmath>

namespace ferry::swap {
namespace {

constexpr std::int64_t kSmall = 10'000;  // a storage below this part of the budget is not copied in advance
constexpr std::int64_t kTiny = 50'000;   // below this part of it it stays
constexpr std::size_t kFarEnough = 64;   // storages that one recomputation is followed to

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Lookahead::Lookahead(const Iteration& iteration, const Uses& uses, Methods methods, const Steering& steering)
    : iteration_(iteration),
      uses_(uses),
      methods_(methods),
      steering_(steering),
      version_(iteration.storages.size()),
      evictable_(iteration.storages.size()),
      needs_(iteration.storages.size()),
      seen_(iteration.storages.size()) {}

OpIndex Lookahead::next_use(StorageIndex s) const {
  OpIndex use = uses_.next(s, now_);
  for (const OpIndex need : needs_[index(s)])
    if (need >= now_) use = std::min(use, need);
  return use;
}

// What `s`, which is gone, will be recomputed from is needed then too.
void Lookahead::need_inputs(StorageIndex s, OpIndex use) {
  std::vector<StorageIndex> missing = {s};
  seen_[index(s)] = ++walk_;
  for (std::size_t visited = 0; !missing.empty() && visited < kFarEnough; ++visited) {
    const OpIndex op = uses_.producer(missing.back());
    missing.pop_back();
    if (op == kNone) continue;
    for (const TensorIndex t : iteration_.ops[index(op)].reads(true)) {
      const StorageIndex input = iteration_.tensors[index(t)].storage;
      if (storage(input).pinned || seen_[index(input)] == walk_) continue;
      seen_[index(input)] = walk_;
      if (executor_->lost(input)) missing.push_back(input);
      if (uses_.next(input, now_) == uses_.beyond()) continue;
      std::vector<OpIndex>& needs = needs_[index(input)];
      std::erase_if(needs, [this](OpIndex need) { return need < now_; });
      needs.push_back(use);
      if (evictable_[index(input)]) offer(input);
    }
  }
}

double Lookahead::gap(StorageIndex s) const {
  const OpIndex use = next_use(s);
  return static_cast<double>((uses_.start(use) - uses_.start(now_)).count());
}

// ns to have it again at `use`.
double Lookahead::cost(StorageIndex s, OpIndex use) const {
  const double bias = steering_.bias.empty() ? 1 : static_cast<double>(steering_.bias[index(s)]);
  if (methods_ != Methods::swap) {
    const Nanoseconds recompute = uses_.recompute_cost(s, use);
    if (recompute != Uses::kImpossible) return bias * static_cast<double>(recompute.count());
  }
  if (!may_swap()) return std::numeric_limits<double>::infinity();
  const Bytes size = storage(s).size;
  return bias * static_cast<double>((executor_->link().out_time(size) + executor_->link().in_time(size)).count());
}

double Lookahead::score(StorageIndex s) const {
  const OpIndex use = next_use(s);
  // Without recomputation the program may still ask for it.
  if (use == uses_.beyond() && methods_ != Methods::swap) return kNothing;
  const double bytes = static_cast<double>(std::max<std::int64_t>(storage(s).size.count, 1));
  const double scaled_gap = (gap(s) + 1) / (total() + 1);
  if (executor_->has_host_copy(s) && executor_->host_copy_ready(s) <= executor_->now())
    return kClean - 0.5 * scaled_gap;
  double price = cost(s, use);
  if (uses_.producer(s) == kNone) return price / bytes / std::pow(scaled_gap, steering_.gap_power);
  // The op that brings back another of its outputs brings back this one too.
  for (const TensorIndex t : iteration_.ops[index(uses_.producer(s))].outputs) {
    const StorageIndex sibling = iteration_.tensors[index(t)].storage;
    if (sibling == s || uses_.producer(sibling) != uses_.producer(s) || !executor_->lost(sibling)) continue;
    if (next_use(sibling) <= use && methods_ != Methods::swap) price *= 0.05;
  }
  return price / bytes / std::pow(scaled_gap, steering_.gap_power);
}

// Its rank among those that wait for a copy: what a byte of it would cost to recompute. Negative: not worth it.
double Lookahead::worth_copying(StorageIndex s) const {
  const OpIndex use = next_use(s);
  if (!evictable_[index(s)] || executor_->has_host_copy(s) || use == uses_.beyond()) return -1;
  const Bytes size = storage(s).size;
  if (gap(s) < static_cast<double>((executor_->link().out_time(size) + executor_->link().in_time(size)).count()))
    return -1;
  const double rate = cost(s, use) / static_cast<double>(size.count);
  const Steering::Swap choice = steering_.swap.empty() ? Steering::Swap::by_cost : steering_.swap[index(s)];
  if (choice == Steering::Swap::never) return -1;
  const double rank = std::pow(std::min(rate, 1e3), steering_.copy_rate_power) *
                      std::pow(gap(s) / (total() + 1), steering_.copy_gap_power);
  if (choice == Steering::Swap::first) return rank + 1e6;
  return rate >= steering_.swap_above ? rank : -1;
}

// Keeps the link out busy: what is copied early can leave without a wait.
void Lookahead::copy_in_advance() {
  const auto next_op = static_cast<double>((uses_.start(now_ + 1) - uses_.start(now_)).count());
  const double ahead = next_op + steering_.backlog * total();
  while (!waiting_.empty() && static_cast<double>((executor_->out_tail() - executor_->now()).count()) <= ahead) {
    StorageIndex best = kNone;
    double most = -1;
    std::erase_if(waiting_, [&](StorageIndex s) {
      const double worth = worth_copying(s);
      if (worth > most) {
        most = worth;
        best = s;
      }
      return worth < 0;
    });
    if (best == kNone) return;
    std::erase(waiting_, best);
    executor_->copy_out(best);
    copying_.push_back(best);
  }
}

void Lookahead::offer(StorageIndex s) {
  heap_.push_back({score(s), s, ++version_[index(s)]});
  std::push_heap(heap_.begin(), heap_.end());
}

void Lookahead::evictable(StorageIndex s) {
  if (storage(s).pinned || storage(s).size.count * kTiny <= executor_->budget().count) return;
  if (methods_ == Methods::recompute && !storage(s).recomputable) return;
  evictable_[index(s)] = true;
  // Small ones are not worth the search for their place in the queues.
  const bool is_large = storage(s).size.count * kSmall >= executor_->budget().count;
  if (may_swap() && is_large && next_use(s) != uses_.beyond()) waiting_.push_back(s);
  offer(s);
}

void Lookahead::not_evictable(StorageIndex s) {
  evictable_[index(s)] = false;
  ++version_[index(s)];
}

void Lookahead::dropped(StorageIndex s) {
  const OpIndex use = next_use(s);
  if (steering_.follows_needs && use != uses_.beyond()) need_inputs(s, use);
  if (uses_.producer(s) == kNone) return;
  for (const TensorIndex t : iteration_.ops[index(uses_.producer(s))].outputs) {
    const StorageIndex sibling = iteration_.tensors[index(t)].storage;
    if (sibling != s && evictable_[index(sibling)]) offer(sibling);
  }
}

// The best candidate with a score in [above, below); kNone: there is none.
StorageIndex Lookahead::take_best(double above, double below) {
  const double horizon = steering_.horizon * total();
  aside_.clear();
  StorageIndex best = kNone;
  while (!heap_.empty() && best == kNone) {
    const Candidate first = heap_.front();
    if (first.score >= below) break;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    if (first.version != version_[index(first.storage)]) continue;
    if (first.score < above || (first.score > kClean && gap(first.storage) < horizon))
      aside_.push_back(first);
    else
      best = first.storage;
  }
  if (best == kNone && !aside_.empty() && below == std::numeric_limits<double>::infinity()) {
    const auto farthest = std::ranges::max_element(
        aside_, {}, [this](const Candidate& c) { return gap(c.storage) - (c.score < 0 ? 0 : 1); });
    best = farthest->storage;
    aside_.erase(farthest);
  }
  for (const Candidate& candidate : aside_) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }
  return best;
}

bool Lookahead::evict(StorageIndex s) {
  if (s == kNone) return false;
  const OpIndex use = next_use(s);
  const bool is_copied = executor_->has_host_copy(s);
  if (executor_->released(s)) return executor_->drop(s), true;
  const bool may_recompute = methods_ != Methods::swap && storage(s).recomputable;
  if (use == uses_.beyond() && may_recompute) return executor_->drop(s), true;
  const bool recomputes = may_recompute && (!may_swap() || uses_.recompute_cost(s, use) != Uses::kImpossible);
  executor_->count_decision();
  if (is_copied || !recomputes) {
    executor_->leave(s);
    if (use != uses_.beyond()) away_.push_back(s);
  } else {
    executor_->drop(s);
  }
  return true;
}

bool Lookahead::make_room(Bytes missing) {
  (void)missing;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Copies that are complete by now cost nothing.
  std::erase_if(copying_, [this](StorageIndex s) {
    if (!evictable_[index(s)]) return !executor_->resident(s);
    if (executor_->host_copy_ready(s) > executor_->now()) return false;
    offer(s);
    return true;
  });
  if (evict(take_best(-kInfinity, 0))) return true;
  // Waiting for the next copy against the best that may be dropped.
  const StorageIndex best = take_best(0, kInfinity);
  for (const StorageIndex s : copying_) {
    if (!evictable_[index(s)] || s == best) continue;
    const auto wait = static_cast<double>((executor_->host_copy_ready(s) - executor_->now()).count());
    if (best != kNone && wait > cost(best, next_use(best))) break;
    if (best != kNone) offer(best);
    return evict(s);
  }
  return evict(best);
}

bool Lookahead::start_prefetch(StorageIndex s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const OpIndex use = next_use(s);
  while (executor_->free_now() < storage(s).size) {
    const StorageIndex victim = take_best(-kInfinity, 0);
    if (victim == kNone) return false;
    if (next_use(victim) <= use) return offer(victim), false;
    evict(victim);
  }
  return executor_->bring_in(s);
}

// Starts the copies in that would otherwise come too late, in order of need.
void Lookahead::prefetch() {
  // Short ops do not change what is late.
  const bool is_end = now_ >= uses_.ops();
  if (!is_end && static_cast<double>((uses_.start(now_) - looked_).count()) * 4000 < total()) return;
  looked_ = uses_.start(now_);
  std::erase_if(away_, [this](StorageIndex s) { return executor_->resident(s) || !executor_->has_host_copy(s); });
  if (away_.empty()) return;
  order_.clear();
  for (const StorageIndex s : away_) order_.push_back({next_use(s), s});
  std::ranges::sort(order_);
  const auto repeated = std::ranges::unique(order_);  // what left, came back and left again
  order_.erase(repeated.begin(), repeated.end());
  const double now = static_cast<double>(uses_.start(now_).count()) + steering_.early * total();
  for (std::size_t first = 0; first < order_.size(); ++first) {
    double copies = std::max(0.0, static_cast<double>((executor_->in_tail() - executor_->now()).count()));
    bool is_late = false;
    for (std::size_t i = first; i < order_.size() && !is_late; ++i) {
      const auto& [use, s] = order_[i];
      copies += steering_.slack * static_cast<double>(executor_->link().in_time(storage(s).size).count());
      is_late = now + copies >= static_cast<double>(uses_.start(use).count());
    }
    if (!is_late || !start_prefetch(order_[first].second)) return;
  }
}

void Lookahead::before_event(std::size_t position) {
  if (position >= iteration_.events.size()) {
    now_ = uses_.ops();
  } else if (iteration_.events[position].kind == Event::Kind::run) {
    now_ = iteration_.events[position].index;
  } else {
    return;
  }
  prefetch();
  copy_in_advance();
}

void Lookahead::ran(OpIndex op, bool again) {
  if (!again) now_ = op + 1;
}

}  // namespace ferry::swap
