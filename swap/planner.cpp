#include "swap/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "src/base/check.h"
#include "swap/gap_schedule.h"
#include "swap/lookahead.h"
#include "swap/replay.h"

namespace ferry::swap {
namespace {

// Op runs that the search may spend: some tenths of a second.
constexpr double kEffort = 3e6;
// The least effort for schedules of gaps.
constexpr double kLeastGaps = 0.05;
// A trial may take so many times the iteration's time at the most.
constexpr double kTimeLimit = 20;

class Search {
 public:
  Search(const Iteration& iteration, const PlannerOptions& options)
      : iteration_(iteration),
        options_(options),
        budget_{static_cast<std::int64_t>(static_cast<double>(options.budget.count) * (1 - options.reserve))},
        tensors_(iteration),
        uses_(iteration),
        base_(unconstrained(iteration)),
        bound_(lower_bound(iteration, budget_, options.methods, options.link)),
        random_(options.seed) {
    trials_left_ = options.trials > 0 ? options.trials : usual_trials(iteration, options.methods, options.effort);
  }

  static int usual_trials(const Iteration& iteration, Methods methods, double effort) {
    const auto size = static_cast<double>(iteration.ops.size() + iteration.storages.size() + 1);
    // Trials with copies take longer.
    const double usual = std::clamp(kEffort / size / (methods == Methods::recompute ? 1 : 2), 40.0, 4000.0);
    return std::max(static_cast<int>(std::min(usual * effort, 1e6)), 1);
  }

  void try_policies() {
    for (const std::string& policy : policy_names()) {
      for (const Methods methods : {Methods::recompute, Methods::both, Methods::swap}) {
        if (methods != options_.methods && options_.methods != Methods::both) continue;
        if (methods == Methods::swap && options_.methods == Methods::both) continue;
        Program program;
        const Cost cost = replay(iteration_, {.budget = budget_,
                                              .policy = policy,
                                              .methods = methods,
                                              .link = options_.link,
                                              .time_limit = methods == Methods::recompute ? 2 : kTimeLimit,
                                              .record = &program});
        ++trials_;
        offer(cost, std::move(program));
      }
    }
  }

  void try_candidate(const Plan& plan) {
    if (!matches(plan, iteration_) || !allows(plan.methods)) return;
    offer(evaluate(iteration_, plan.program, budget_, options_.link), Program(plan.program));
  }

  // Swaps alone, from the gaps between uses.
  void try_gaps() {
    if (options_.methods == Methods::recompute || is_best()) return;
    double effort = options_.effort;
    if (options_.trials > 0)
      effort =
          std::max(static_cast<double>(options_.trials) / usual_trials(iteration_, options_.methods, 1), kLeastGaps);
    GapSchedule found = schedule_gaps(
        iteration_, uses_, {.budget = budget_, .link = options_.link, .effort = effort, .seed = options_.seed});
    trials_ += found.trials;
    offer(found.cost, std::move(found.program));
  }

  // Grids of steerings to start from.
  void try_steerings() {
    constexpr double kNoSwap = std::numeric_limits<double>::infinity();
    for (const bool follows : {true, false})
      for (const double power : {0.0, 0.5, 1.0})
        for (const double horizon : {0.002, 0.02, 0.1})
          try_steering({.gap_power = power, .horizon = horizon, .follows_needs = follows, .swap_above = kNoSwap});
    if (options_.methods == Methods::recompute) return;
    for (const double price : swap_prices()) {
      for (const double power : {0.0, 0.5}) {
        for (const double early : {0.005, 0.05}) {
          Steering start{.gap_power = power, .swap_above = price, .early = early};
          try_copy_order(start, 0, 1);
          try_copy_order(start, 1, 0);
          try_copy_order(start, 1, 1);
        }
      }
    }
  }

  void try_copy_order(Steering steering, double rate_power, double gap_power) {
    steering.copy_rate_power = rate_power;
    steering.copy_gap_power = gap_power;
    for (const bool follows : {true, false}) {
      steering.follows_needs = follows;
      if (trials_left_ > 0) try_steering(steering);
    }
  }

  // Changes the numbers of the best steering a little again and again.
  void improve() {
    if (best_steering_time_ == Nanoseconds::max()) return;
    collect_movable();
    if (movable_.empty()) return;
    while (trials_left_ > 0 && !is_best()) try_steering(changed(best_steering_));
  }

  int trials() const { return trials_; }
  Bytes budget() const { return budget_; }
  const Unconstrained& base() const { return base_; }
  bool found() const { return best_.feasible; }
  const std::string& reason() const { return reason_; }

  Plan plan() {
    drop_needless_copies();
    Plan plan{.fingerprint = fingerprint(iteration_),
              .budget = options_.budget,
              .methods = options_.methods,
              .link = options_.link,
              .program = std::move(best_program_),
              .cost = best_,
              .base_time = base_.time,
              .bound = bound_};
    return plan;
  }

 private:
  // Copies out of what then stayed, or was recomputed after all.
  void drop_needless_copies() {
    std::vector<bool> leaves(iteration_.storages.size());
    Program shorter;
    for (std::size_t i = best_program_.size(); i-- > 0;) {
      const Step& step = best_program_[i];
      const auto s = static_cast<std::size_t>(step.index);
      if (step.kind == Step::Kind::leave) leaves[s] = true;
      if (step.kind == Step::Kind::drop) leaves[s] = false;
      if (step.kind == Step::Kind::copy_out && !leaves[s]) continue;
      shorter.push_back(step);
    }
    std::ranges::reverse(shorter);
    const Cost cost = evaluate(iteration_, shorter, budget_, options_.link);
    if (!cost.feasible || cost.time > best_.time) return;
    const std::int64_t decisions = best_.decisions;
    best_ = cost;
    best_.decisions = decisions;
    best_program_ = std::move(shorter);
  }

  bool allows(Methods methods) const { return methods == options_.methods || options_.methods == Methods::both; }

  bool offer(const Cost& cost, Program&& program) {
    if (!cost.feasible) {
      if (reason_.empty()) reason_ = cost.reason;
      return false;
    }
    if (best_.feasible && cost.time >= best_.time) return false;
    best_ = cost;
    best_program_ = std::move(program);
    return true;
  }

  Cost trial(const Steering& steering, Program* record) {
    const double limit = static_cast<double>(base_.time.count()) * kTimeLimit;
    Executor::Options limits{.budget = budget_, .link = options_.link, .record = record};
    limits.time_limit =
        std::min(best_steering_time_, Nanoseconds(static_cast<Nanoseconds::rep>(std::min(limit, 9e18))));
    Lookahead lookahead(iteration_, uses_, options_.methods, steering);
    Executor executor(iteration_, tensors_, limits, lookahead);
    lookahead.attach(executor);
    return executor.run();
  }

  // Nothing is left to gain.
  bool is_best() const { return best_.feasible && best_.time <= bound_.time; }

  void try_steering(const Steering& steering) {
    if (is_best()) return;
    ++trials_;
    --trials_left_;
    scratch_.clear();
    const Cost cost = trial(steering, &scratch_);
    if (!cost.feasible) {
      offer(cost, {});
      return;
    }
    if (cost.time < best_steering_time_ || (cost.time == best_steering_time_ && random_() % 2 == 0)) {
      best_steering_time_ = cost.time;
      best_steering_ = steering;
      collect_gone();
      offer(cost, Program(scratch_));
    }
  }

  // Those that leave in the best trial, although they are used again.
  void collect_gone() {
    gone_.clear();
    OpIndex next_op = 0;
    for (const Step& step : scratch_) {
      if (step.kind == Step::Kind::run && step.index == next_op) ++next_op;
      if (step.kind != Step::Kind::drop && step.kind != Step::Kind::leave) continue;
      const Bytes size = iteration_.storages[static_cast<std::size_t>(step.index)].size;
      if (size.count * 5000 >= base_.peak.count && uses_.next(step.index, next_op) != uses_.beyond())
        gone_.push_back(step.index);
    }
  }

  // Recomputation costs, a byte, of the storages that are idle for long: the thresholds worth trying.
  std::vector<double> swap_prices() const {
    std::vector<double> costs;
    for (std::size_t s = 0; s < iteration_.storages.size(); ++s) {
      const auto storage = static_cast<StorageIndex>(s);
      if (iteration_.storages[s].size.count * 1000 < base_.peak.count || uses_.producer(storage) == kNone) continue;
      const OpIndex use = uses_.next(storage, uses_.producer(storage) + 1);
      const Nanoseconds cost = uses_.recompute_cost(storage, use);
      if (use >= uses_.ops() || cost == Uses::kImpossible) continue;
      costs.push_back(static_cast<double>(cost.count()) / static_cast<double>(iteration_.storages[s].size.count));
    }
    std::ranges::sort(costs);
    std::vector<double> prices = {0};
    for (const std::size_t part : {2, 5, 7})
      if (!costs.empty()) prices.push_back(costs[costs.size() * part / 10]);
    return prices;
  }

  // Storages large enough that a change of their bias may matter.
  void collect_movable() {
    for (std::size_t s = 0; s < iteration_.storages.size(); ++s) {
      const Storage& storage = iteration_.storages[s];
      if (!storage.pinned && storage.size.count * 5000 >= base_.peak.count)
        movable_.push_back(static_cast<StorageIndex>(s));
    }
  }

  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Steering changed(Steering steering) {
    const auto scaled = [this](double value, double least) {
      return std::max(value, least) * std::exp((uniform() - 0.5) * 1.4);
    };
    if (steering.bias.empty()) steering.bias.assign(iteration_.storages.size(), 1);
    const bool swaps = options_.methods != Methods::recompute;
    if (swaps && steering.swap.empty()) steering.swap.assign(iteration_.storages.size(), Steering::Swap::by_cost);
    const std::uint64_t kind = random_() % (swaps ? 10 : 6);
    if (kind == 0) steering.horizon = scaled(steering.horizon, 0.001);
    if (kind == 1) steering.gap_power = std::max(0.0, steering.gap_power + (uniform() - 0.5) * 0.4);
    if (kind == 6) steering.backlog = scaled(steering.backlog, 0.002);
    if (kind == 7) {
      steering.slack = std::max(0.8, scaled(steering.slack, 1));
      steering.early = scaled(steering.early, 0.0005);
    }
    if (kind == 8) {
      if (std::isfinite(steering.swap_above)) steering.swap_above = scaled(steering.swap_above, 1e-6);
      steering.copy_rate_power = uniform() * 2;
      steering.copy_gap_power = uniform() * 3;
    }
    const std::size_t moves = 1 + random_() % 4;
    for (std::size_t i = 0; i < moves && kind >= 2 && kind < 6; ++i)
      bias_of(pick(), steering) *= static_cast<float>(std::exp((uniform() - 0.5) * 3));
    if (kind == 9 || (swaps && kind >= 4 && kind < 6)) {
      for (std::size_t i = 0; i < moves; ++i)
        steering.swap[static_cast<std::size_t>(pick())] = static_cast<Steering::Swap>(random_() % 3);
    }
    return steering;
  }

  StorageIndex pick() {
    const std::vector<StorageIndex>& from = gone_.empty() || random_() % 4 == 0 ? movable_ : gone_;
    return from[random_() % from.size()];
  }
  static float& bias_of(StorageIndex s, Steering& steering) { return steering.bias[static_cast<std::size_t>(s)]; }

  const Iteration& iteration_;
  const PlannerOptions& options_;
  Bytes budget_;
  StorageTensors tensors_;
  Uses uses_;
  Unconstrained base_;
  Bound bound_;
  std::mt19937_64 random_;
  int trials_left_ = 0, trials_ = 0;
  std::vector<StorageIndex> movable_, gone_;
  Steering best_steering_;
  Nanoseconds best_steering_time_ = Nanoseconds::max();
  Program scratch_, best_program_;
  Cost best_;
  std::string reason_;
};

void check(const PlannerOptions& options) {
  FERRY_CHECK(options.methods == Methods::recompute || options.link.exists(), InvalidArgument,
              "a plan that swaps needs a link between device and host; give its speed");
  FERRY_CHECK(options.reserve >= 0 && options.reserve < 1, InvalidArgument, "a reserve of {} is not in [0, 1)",
              options.reserve);
  FERRY_CHECK(options.effort > 0, InvalidArgument, "a planning effort of {} is not positive", options.effort);
}

}  // namespace

PlanResult make_plan(const Iteration& iteration, const PlannerOptions& options, std::span<const Plan> candidates) {
  check(options);
  Search search(iteration, options);
  for (const Plan& candidate : candidates) search.try_candidate(candidate);
  if (options.methods == Methods::both) {
    PlannerOptions recompute = options;
    recompute.methods = Methods::recompute;
    recompute.find_smallest = false;
    if (options.trials == 0)
      recompute.trials = std::max(Search::usual_trials(iteration, Methods::both, options.effort) / 2, 1);
    if (const PlanResult result = make_plan(iteration, recompute); result.plan) search.try_candidate(*result.plan);
  }
  search.try_policies();
  search.try_gaps();
  search.try_steerings();
  search.improve();
  PlanResult result{.trials = search.trials()};
  if (search.found()) {
    result.plan = search.plan();
    return result;
  }
  result.reason = search.reason();
  if (options.find_smallest) result.smallest = smallest_budget(iteration, options);
  return result;
}

std::vector<PlanResult> plan_ladder(const Iteration& iteration, PlannerOptions options,
                                    std::span<const Bytes> budgets) {
  std::vector<std::size_t> order(budgets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return budgets[i]; });
  std::vector<PlanResult> results(budgets.size());
  std::vector<Plan> smaller;
  for (const std::size_t i : order) {
    options.budget = budgets[i];
    results[i] = make_plan(iteration, options, smaller);
    if (results[i].plan) smaller.assign(1, *results[i].plan);  // it is no slower than those before it
  }
  return results;
}

Bytes smallest_budget(const Iteration& iteration, const PlannerOptions& options) {
  check(options);
  PlannerOptions trial = options;
  trial.find_smallest = false;
  trial.trials = 1;
  const auto works = [&](Bytes budget) {
    trial.budget = budget;
    return make_plan(iteration, trial).plan.has_value();
  };
  const auto with_reserve = [&](Bytes bytes) {
    return Bytes{static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes.count) / (1 - options.reserve))) + 1};
  };
  Bytes high = with_reserve(unconstrained(iteration).peak), low{};
  while ((high - low).count * 100 > high.count) {
    const Bytes middle{low.count + (high - low).count / 2};
    (works(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace ferry::swap
