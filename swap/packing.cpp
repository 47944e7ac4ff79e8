#include "swap/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace ferry::swap {
namespace {

// Pairs of blocks that the trials may look at.
constexpr double kEffort = 4e8;
constexpr double kNearlyAlways = 0.9;
// Who lacks a place over the end of time lies in the way of others: such bytes count for more.
constexpr std::int64_t kOverTheEnd = 16;

class Packer {
 public:
  Packer(std::span<const TimedBlock> blocks, const PackingOptions& options)
      : blocks_(blocks), capacity_(options.capacity.count), period_(options.period), random_(options.seed) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].offset == kNowhere) {
        free_.push_back(i);
      } else {
        given_.push_back(i);
      }
    }
    std::ranges::stable_sort(given_, {}, [&](std::size_t i) { return blocks_[i].offset; });
    const double size = static_cast<double>(blocks.size()) + 1;
    trials_ = options.trials > 0 ? options.trials : static_cast<int>(std::clamp(kEffort / size / size, 8.0, 20000.0));
  }

  Packing run() {
    for (const double power : {0.25, 0.0, 1.0, 0.5}) start(power);
    while (trials_ > 0 && best_.left_out.count > 0) {
      std::vector<double> weights = best_weights_;
      for (const std::size_t i : free_)
        if (best_.offsets[i] == kNowhere) weights[i] *= 1.2 + 4 * uniform();
      const std::size_t changes = random_() % 4;
      for (std::size_t change = 0; change < changes; ++change)
        weights[free_[random_() % free_.size()]] *= std::exp((uniform() - 0.5) * 3);
      attempt(std::move(weights));
    }
    return std::move(best_);
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  // By size, and by some power of the time.
  void start(double power) {
    if (trials_ <= 0 || (!best_.offsets.empty() && best_.left_out.count == 0)) return;
    std::vector<double> weights(blocks_.size());
    for (const std::size_t i : free_) {
      const std::int32_t length = blocks_[i].end - blocks_[i].begin;
      const auto duration = static_cast<double>(length > 0 ? length : length + period_ + 1);
      weights[i] = static_cast<double>(blocks_[i].size.count) * std::pow(duration, power);
      // What lives nearly all the time is best at the bottom.
      if (duration >= kNearlyAlways * period_) weights[i] = std::numeric_limits<double>::infinity();
    }
    attempt(std::move(weights));
  }

  void attempt(std::vector<double> weights) {
    --trials_;
    order_ = free_;
    std::ranges::stable_sort(order_, std::greater{}, [&](std::size_t i) { return weights[i]; });
    Packing packing = place_in_order();
    if (!best_.offsets.empty() && loss_ > least_loss_) return;
    best_ = std::move(packing);
    least_loss_ = loss_;
    best_weights_ = std::move(weights);
  }

  Packing place_in_order() {
    Packing packing{.offsets = std::vector<Offset>(blocks_.size(), kNowhere)};
    placed_.clear();
    loss_ = {};
    for (const std::size_t i : given_) {
      packing.offsets[i] = blocks_[i].offset;
      placed_.push_back(placed(i, blocks_[i].offset));
    }
    for (const std::size_t i : order_) {
      const Offset offset = packing.offsets[i] = lowest_place(blocks_[i]);
      if (offset == kNowhere) {
        packing.left_out += blocks_[i].size;
        loss_ += blocks_[i].size * (blocks_[i].end <= blocks_[i].begin ? kOverTheEnd : 1);
      } else {
        placed_.insert(std::ranges::upper_bound(placed_, offset, {}, &Placed::offset), placed(i, offset));
      }
    }
    return packing;
  }

  struct Placed {
    Offset offset, top;
    std::int32_t begin, end;
  };
  Placed placed(std::size_t i, Offset offset) const {
    return {offset, offset + blocks_[i].size.count, blocks_[i].begin, blocks_[i].end};
  }

  // Two that go over the end of time meet there.
  static bool meet(const Placed& a, const TimedBlock& b) {
    const bool wraps_a = a.end <= a.begin, wraps_b = b.end <= b.begin;
    if (wraps_a && wraps_b) return true;
    if (wraps_a || wraps_b) return a.begin < b.end || b.begin < a.end;
    return a.begin < b.end && b.begin < a.end;
  }

  Offset lowest_place(const TimedBlock& block) const {
    Offset free_from = 0;
    for (const Placed& other : placed_) {
      if (!meet(other, block)) continue;
      if (other.offset - free_from >= block.size.count) break;
      free_from = std::max(free_from, other.top);
    }
    return free_from + block.size.count <= capacity_ ? free_from : kNowhere;
  }

  std::span<const TimedBlock> blocks_;
  const Offset capacity_;
  const std::int32_t period_;
  std::mt19937_64 random_;
  int trials_;
  std::vector<std::size_t> free_, given_, order_;
  std::vector<Placed> placed_;  // by offset
  Packing best_;
  Bytes loss_, least_loss_;  // of the packing that is made, and of the best
  std::vector<double> best_weights_;
};

}  // namespace

Packing pack(std::span<const TimedBlock> blocks, const PackingOptions& options) {
  return Packer(blocks, options).run();
}

}  // namespace ferry::swap
