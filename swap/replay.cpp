#include "swap/replay.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/check.h"

namespace ferry::swap {
namespace {

// Evicts what a policy chooses, by the method that is allowed or cheaper.
class PolicyStrategy final : public Strategy {
 public:
  PolicyStrategy(const Iteration& iteration, const ReplayOptions& options)
      : iteration_(iteration),
        options_(options),
        policy_(make_policy(options.policy)),
        pool_(*policy_, options.victims) {
    neighborhood_.know(static_cast<StorageIndex>(iteration.storages.size()));
  }

  void attach(Executor& executor) { executor_ = &executor; }

  void before_event(std::size_t position) override {
    if (position >= iteration_.events.size()) return;
    const Event& event = iteration_.events[position];
    if (event.kind != Event::Kind::run) return;
    const Op& op = iteration_.ops[static_cast<std::size_t>(event.index)];
    reads_.clear();
    writes_.clear();
    for (const TensorIndex t : op.reads(true)) reads_.push_back(storage_of(t));
    for (const TensorIndex t : op.outputs) writes_.push_back(storage_of(t));
    neighborhood_.add_op(reads_, writes_, op.time);
  }

  void evictable(StorageIndex s) override {
    const Storage& storage = iteration_.storages[static_cast<std::size_t>(s)];
    if (storage.pinned || pool_.contains(s)) return;
    if (options_.methods == Methods::recompute && !storage.recomputable) return;
    pool_.add(describe(s), situation());
  }
  void not_evictable(StorageIndex s) override { pool_.remove(s); }

  void dropped(StorageIndex s) override { neighborhood_.evicted(s); }
  void recomputed(StorageIndex s) override { neighborhood_.restored(s); }

  bool make_room(Bytes) override {
    const std::optional<Evictable> victim = pool_.choose(situation());
    if (!victim) return false;
    executor_->count_decision();
    if (swaps(*victim))
      executor_->leave(victim->storage);
    else
      executor_->drop(victim->storage);
    return true;
  }

 private:
  StorageIndex storage_of(TensorIndex t) const { return iteration_.tensors[static_cast<std::size_t>(t)].storage; }

  Evictable describe(StorageIndex s) const {
    const Storage& storage = iteration_.storages[static_cast<std::size_t>(s)];
    Evictable it{.storage = s,
                 .size = storage.size,
                 .last_access = executor_->last_access(s),
                 .recomputable = storage.recomputable};
    if (options_.methods == Methods::recompute) return it;
    it.swap_time = options_.link.in_time(storage.size);
    if (!executor_->has_host_copy(s)) it.swap_time += options_.link.out_time(storage.size);
    return it;
  }

  Situation situation() const {
    const Nanoseconds now = executor_->now();
    const auto wait = [now](Nanoseconds tail) { return std::max(tail - now, Nanoseconds{0}); };
    return {.now = now,
            .methods = options_.methods,
            .neighborhood = neighborhood_,
            .link_wait = wait(executor_->out_tail()) + wait(executor_->in_tail())};
  }

  bool swaps(const Evictable& it) const {
    if (options_.methods == Methods::recompute) return false;
    if (options_.methods == Methods::swap || !it.recomputable) return true;
    if (executor_->released(it.storage)) return false;
    const Nanoseconds recompute = neighborhood_.own_cost(it.storage) + neighborhood_.neighbors_cost(it.storage);
    return swap_cost(it, situation()) < recompute;
  }

  const Iteration& iteration_;
  const ReplayOptions& options_;
  std::unique_ptr<Policy> policy_;
  VictimPool pool_;
  Neighborhood neighborhood_;
  Executor* executor_ = nullptr;
  std::vector<StorageIndex> reads_, writes_;
};

}  // namespace

Cost replay(const Iteration& iteration, const ReplayOptions& options) {
  FERRY_CHECK(options.methods == Methods::recompute || options.link.exists(), InvalidArgument,
              "swapping needs a link between device and host; give its speed");
  Executor::Options limits{
      .budget = options.budget, .threshold = options.threshold, .link = options.link, .record = options.record};
  if (options.time_limit > 0) {
    const double limit = std::ceil(static_cast<double>(unconstrained(iteration).time.count()) * options.time_limit);
    if (limit < 9e18) limits.time_limit = Nanoseconds(static_cast<Nanoseconds::rep>(limit));
  }
  const StorageTensors tensors(iteration);
  PolicyStrategy strategy(iteration, options);
  Executor executor(iteration, tensors, limits, strategy);
  strategy.attach(executor);
  return executor.run();
}

}  // namespace ferry::swap
