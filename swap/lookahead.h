// Eviction with knowledge of the whole iteration, steered by numbers that the planner searches over. A run of it on an
// Executor is one trial of a plan.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "swap/executor.h"
#include "swap/policy.h"
#include "swap/uses.h"

namespace ferry::swap {

// The numbers.
struct Steering {
  double gap_power = 0;        // scores are cost ÷ (bytes × gap^power), the gap being the time to the next use
  double horizon = 0.01;       // what is used within this part of the iteration's time goes last
  bool follows_needs = true;   // what a dropped storage is recomputed from counts as used then
  double swap_above = 0;       // ns a byte of recomputation from which on a storage is copied out in advance
  double backlog = 0.002;      // copies out are not queued beyond this part of the iteration's time
  double copy_rate_power = 1;  // what waits for its copy out is ranked by rate^this × gap^that,
  double copy_gap_power = 1;   // rate being the cost of recomputing a byte
  double slack = 1.1;          // copies in start so many copy times before they are needed
  double early = 0.005;        // and this part of the iteration's time
  std::vector<float> bias{};   // factor on each storage's cost; empty: 1
  enum class Swap : std::uint8_t { by_cost, first, never };
  std::vector<Swap> swap{};  // by storage; empty: by_cost
};

class Lookahead final : public Strategy {
 public:
  Lookahead(const Iteration& iteration, const Uses& uses, Methods methods, const Steering& steering);

  void attach(Executor& executor) { executor_ = &executor; }

  void before_event(std::size_t position) override;
  void ran(OpIndex op, bool again) override;
  void evictable(StorageIndex storage) override;
  void not_evictable(StorageIndex storage) override;
  void dropped(StorageIndex storage) override;
  bool make_room(Bytes missing) override;

 private:
  struct Candidate {
    double score;
    StorageIndex storage;
    std::uint32_t version;
    bool operator<(const Candidate& other) const { return score > other.score; }  // for a heap: smallest first
  };
  static constexpr double kNothing = -2, kClean = -1;  // scores of what costs nothing

  const Storage& storage(StorageIndex s) const { return iteration_.storages[static_cast<std::size_t>(s)]; }
  bool may_swap() const { return methods_ != Methods::recompute; }
  double total() const { return static_cast<double>(uses_.start(uses_.ops()).count()); }
  // The op before which it is needed next: by the program, or to recompute what was dropped.
  OpIndex next_use(StorageIndex s) const;
  void need_inputs(StorageIndex s, OpIndex use);
  double gap(StorageIndex s) const;  // ns of op time to its next use
  double cost(StorageIndex s, OpIndex use) const;
  double score(StorageIndex s) const;
  double worth_copying(StorageIndex s) const;
  void copy_in_advance();
  void offer(StorageIndex s);
  StorageIndex take_best(double above, double below);
  bool evict(StorageIndex s);
  void prefetch();
  bool start_prefetch(StorageIndex s);

  const Iteration& iteration_;
  const Uses& uses_;
  Methods methods_;
  const Steering& steering_;
  Executor* executor_ = nullptr;
  OpIndex now_ = 0;  // the op of the program that runs next
  std::vector<std::uint32_t> version_;
  std::vector<bool> evictable_;
  std::vector<std::vector<OpIndex>> needs_;  // by storage: ops before which something is recomputed from it
  std::vector<std::uint32_t> seen_;
  std::uint32_t walk_ = 0;
  std::vector<Candidate> heap_, aside_;
  std::vector<StorageIndex> waiting_;                    // may be copied out in advance
  std::vector<StorageIndex> copying_;                    // in order of their copies
  Nanoseconds looked_{-1'000'000'000};                   // when prefetches were looked at
  std::vector<StorageIndex> away_;                       // on the host only
  std::vector<std::pair<OpIndex, StorageIndex>> order_;  // of them, by next use
};

}  // namespace ferry::swap
