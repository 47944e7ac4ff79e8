// What a placement costs in driver allocations. Device and pinned memory are kept once the driver gave them, so that
// these are few; but each takes as long as tens of launches, which tells in short runs.
#include <algorithm>
#include <map>

#include "placement/advisor_replay.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/pinned_pool.h"
#include "src/memory/staging_ring.h"

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Longer runs are made of other things.
constexpr std::int64_t kShort = 20'000;  // allocations' time

// The most that is there at once of memory that comes and goes.
class Peak {
 public:
  void add(trace::OpIndex from, trace::OpIndex until, std::int64_t amount) {
    changes_.emplace_back(from, amount);
    changes_.emplace_back(until + 1, -amount);
  }
  std::int64_t value() {
    std::ranges::sort(changes_);
    std::int64_t now = 0, most = 0;
    for (const auto& [_, amount] : changes_) most = std::max(most, now += amount);
    return most;
  }

 private:
  std::vector<std::pair<trace::OpIndex, std::int64_t>> changes_;  // what goes sorts before what comes
};

// The allocators' memory while tensors come and go.
class Memory {
 public:
  // Copies that are staged have blocks of their own stream.
  void on_device(trace::OpIndex from, trace::OpIndex until, Bytes size, bool staged) {
    const bool small = size <= kMiB;
    if (size >= kMiB * 10) {
      large_.add(from, until, 1);
    } else {
      pools_[{small, staged}].add(from, until, size.count);
    }
    if (staged) staged_ = std::max(staged_, size);
  }
  void pinned(trace::OpIndex from, trace::OpIndex until, Bytes size) {
    slabs_[PinnedPool::slab_size(size).count].add(from, until, 1);
  }

  std::int64_t driver_calls() {
    std::int64_t calls = large_.value();
    for (auto& [pool, peak] : pools_) {
      const std::int64_t segment = (pool.first ? kMiB * 2 : kMiB * 20).count;
      calls += (peak.value() + segment - 1) / segment;
    }
    for (auto& [_, peak] : slabs_) calls += peak.value();
    const StagingRingOptions ring;
    if (staged_ > Bytes{})
      calls += std::min<std::int64_t>(ring.slabs, (staged_.count + ring.slab.count - 1) / ring.slab.count);
    return calls;
  }

 private:
  std::map<std::pair<bool, bool>, Peak> pools_;  // small; staged
  std::map<std::int64_t, Peak> slabs_;           // by size
  Peak large_;
  Bytes staged_{};
};

}  // namespace

std::int64_t Replay::recorded_allocations(const trace::OpRecord& op, Nanoseconds host) const {
  return op.device.is_gpu() ? std::max<std::int64_t>((host - model_->launch) / model_->allocation, 0) : 0;
}

std::int64_t Replay::recorded_allocations(std::int64_t index) const {
  const trace::CopyRecord& copy = trace_.copies[at(index)];
  Nanoseconds host = timeline_.host_time(index);
  if (copy.to.is_gpu()) host -= model_->staging.time(copy.size);
  return std::max<std::int64_t>(host / model_->allocation, 0);
}

Nanoseconds Replay::allocation_time(const Places& places, const TimelineChanges& changes) const {
  if (model_ == nullptr || model_->allocation <= Nanoseconds(0)) return {};
  if (changes.moved.empty() || trace_.end - trace_.begin > kShort * model_->allocation) return {};
  std::int64_t kept = 0;
  std::vector<char> is_gone(trace_.copies.size(), 0);
  for (const std::int64_t copy : changes.removed) is_gone[at(copy)] = 1;
  for (std::size_t i = 0; i < trace_.copies.size(); ++i)
    kept += is_gone[i] != 0 ? 0 : recorded_allocations(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    const GroupIndex group = group_of_[i];
    if (places[at(group)] == groups_[at(group)].device)
      kept += recorded_allocations(trace_.ops[i], op_cost_.measured_host(static_cast<trace::OpIndex>(i)));
  }
  const bool staged = trace_.copy_mode == "staged";
  Memory memory;
  for (std::size_t tensor = 0; tensor < uses_.size(); ++tensor) {
    const std::vector<Use>& uses = uses_[tensor];
    if (uses.empty()) continue;
    const std::vector<Direction> copies = copies_of(static_cast<trace::TensorIndex>(tensor), places);
    const Bytes size = trace_.tensors[tensor].size;
    const trace::OpIndex last = uses.back().order;
    bool on_gpu = uses.front().read && first_home(static_cast<trace::TensorIndex>(tensor)).is_gpu();
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const Use& use = uses[i];
      if (copies[i] && copies[i]->second.is_gpu()) {
        memory.on_device(use.order, last, size, staged || use.explicit_copy);
        on_gpu = true;
      } else if (copies[i] && (staged || use.explicit_copy)) {
        memory.pinned(use.order, last, size);
      }
      if (!use.write) continue;
      const bool here = place_of(use, places).is_gpu();
      if (here && !on_gpu) memory.on_device(use.order, last, size, false);
      on_gpu = here;
    }
  }
  return std::max<std::int64_t>(memory.driver_calls() - kept, 0) * model_->allocation;
}

}  // namespace ferry::placement
