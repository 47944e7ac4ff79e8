#include "swap/engine/planning.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/check.h"

namespace ferry::swap {
namespace {

constexpr std::int64_t kAlwaysRecorded = 3;
constexpr std::int64_t kMisfits = 3;
// A plan is not searched for any more that would be faster by less than this factor.
constexpr double kWorthSearching = 1.005;
constexpr std::int64_t kRearrangements = 4;

// Copies of what lives in pageable memory stay where that is possible: the host would have to stage them again, behind
// all prefetches. Those of the iteration before, which this one only gives up, do not leave in any case.
void pin_copies(IterationRecorder::Recorded& recorded, bool pinned) {
  Iteration& it = recorded.iteration;
  const auto storage_of = [&](TensorIndex t) { return it.tensors[static_cast<std::size_t>(t)].storage; };
  for (const StorageIndex copy : recorded.copies) {
    const bool is_read = std::ranges::any_of(
        it.ops, [&](const Op& op) { return std::ranges::find(op.inputs, copy, storage_of) != op.inputs.end(); });
    it.storages[static_cast<std::size_t>(copy)].pinned = pinned && is_read;
  }
}

// The part of the budget that a plan leaves free so that its storages find addresses: more and more until they do; then
// perhaps less than that, but more than what did not do.
class ReserveSearch {
 public:
  explicit ReserveSearch(double least) : now_(least), too_little_(least) {}

  double now() const { return now_; }
  void failed() {
    refinements_ += has_worked() ? 1 : 0;
    too_little_ = now_;
    now_ = has_worked() ? (now_ + enough_) / 2 : now_ + kStep * (1 + trials_ / kTrialsAStep);
  }
  void worked() {
    refinements_ += has_worked() ? 1 : 0;
    enough_ = now_;
    now_ = (now_ + too_little_) / 2;
  }
  // Whether now() is to be tried. is_good: the best plan that worked is about as fast as any.
  bool goes_on(bool is_good) {
    if (is_good || ++trials_ >= kTrials || refinements_ >= kRefinements || now_ >= kAll) return false;
    return !has_worked() || enough_ - too_little_ >= kStep / 2;
  }

 private:
  static constexpr int kTrials = 14, kTrialsAStep = 4, kRefinements = 3;
  static constexpr double kStep = 0.005, kAll = 1;

  bool has_worked() const { return enough_ < kAll; }

  double now_, too_little_, enough_ = kAll;
  int trials_ = 0, refinements_ = 0;
};

}  // namespace

void Planning::ran(const CallNote& note, const std::shared_ptr<Producer>& producer) {
  if (records_) recorder_.ran(note, producer.get());
  follower_.ran(note, producer);
}

void Planning::end_iteration() {
  ++state_.stats.iterations;
  followed_ = follower_.end_iteration();
  if (!followed_) return;
  ++state_.stats.planned_iterations;
  misfits_ = 0;
}

bool Planning::plan_next(std::span<Value* const> values) {
  const bool is_new = !followed_ && records_ && recorder_.ops() > 0 && replan(values);
  settle_addresses();
  return is_new;
}

// What lives moves to where the plan's iteration begins. If something is in the way, there are other addresses. A
// program that has something in the way again and again is not worth it.
void Planning::settle_addresses() {
  if (!follower_.has_plan()) return;
  if (layout_.settle(follower_.values())) {
    rearranged_ = 0;
    return;
  }
  ++rearranged_;
  if (rearranged_ > kRearrangements && !std::has_single_bit(static_cast<std::uint64_t>(rearranged_))) return;
  layout_.arrange(follower_.recorded(), follower_.plan(), follower_.values());
  layout_.settle(follower_.values());
}

void Planning::begin_iteration(std::span<Value* const> values, Bytes others, bool was_short) {
  // The first iterations are recorded in any case; later ones that have room need no plan.
  const bool is_of_use = was_short || follower_.has_plan() || state_.stats.iterations < kAlwaysRecorded;
  records_ = state_.options.plans && state_.options.budget.count > 0 && is_of_use;
  if (records_) recorder_.begin(values, others);
  follower_.begin_iteration();
}

PlannerOptions Planning::planner_options() const {
  return {.budget = state_.options.budget,
          .methods = state_.options.methods,
          .link = state_.options.link,
          .reserve = kReserve,
          .effort = state_.options.planning_effort};
}

bool Planning::replan(std::span<Value* const> values) {
  Recorded recorded = recorder_.end(values);
  last_ = recorded.iteration;
  largest_call_ = {};
  if (!is_worth_planning(recorded.iteration)) {
    give_up();
    return false;
  }
  pin_copies(recorded, true);
  if (!loaded_.empty() && adopt_loaded(recorded)) return true;
  std::optional<Plan> plan = find_plan(recorded);
  if (!plan && !recorded.copies.empty()) {
    pin_copies(recorded, false);
    plan = find_plan(recorded);
  }
  if (!plan) {
    give_up();
    return false;
  }
  last_ = recorded.iteration;  // with what was pinned: the plan's
  ++state_.stats.plans;
  rearranged_ = 0;
  follower_.adopt(std::move(recorded), std::move(*plan));
  return true;
}

// The fastest found of the plans whose storages all find an address; where there is none, the one that lacks fewest
// bytes.
std::optional<Plan> Planning::find_plan(const Recorded& recorded) {
  PlannerOptions planner = planner_options();
  planner.find_smallest = false;
  ReserveSearch reserve(Layout::reserve_for(recorded.iteration, planner.budget, kReserve));
  std::optional<Plan> best;
  Bytes least{};
  Nanoseconds shortest = Nanoseconds::max();
  bool is_arranged = false;  // the best one, lately
  do {
    planner.reserve = reserve.now();
    PlanResult result = make_plan(recorded.iteration, planner);
    ++planner.seed;
    if (!result.plan) {
      // With less memory there is none either.
      if (!best || least > Bytes{}) break;
      reserve.failed();
      continue;
    }
    const Bytes left_out = layout_.arrange(recorded, *result.plan, recorded.values);
    const Nanoseconds time = result.plan->cost.time;
    shortest = std::min(shortest, time);
    is_arranged = !best || left_out < least || (left_out == least && time < best->cost.time);
    if (is_arranged) {
      best = std::move(result.plan);
      least = left_out;
    }
    left_out == Bytes{} ? reserve.worked() : reserve.failed();
  } while (reserve.goes_on(least == Bytes{} && static_cast<double>(best->cost.time.count()) <
                                                   kWorthSearching * static_cast<double>(shortest.count())));
  if (best && !is_arranged) layout_.arrange(recorded, *best, recorded.values);
  return best;
}

std::vector<std::int64_t> Planning::host_copies() const {
  return swap::host_copies(follower_.plan(), follower_.iteration());
}

bool Planning::is_worth_planning(const Iteration& iteration) {
  const std::uint64_t print = fingerprint(iteration);
  const bool repeats = std::exchange(fingerprint_, print) == print;
  if (!repeats) smallest_.reset();
  // A program that never did what its plan expected is planned when it repeats itself, and now and then.
  if (follower_.has_plan()) ++misfits_;
  if (misfits_ >= kMisfits && !repeats && !std::has_single_bit(static_cast<std::uint64_t>(state_.stats.iterations)))
    return false;
  const auto spare = static_cast<std::int64_t>(static_cast<double>(state_.options.budget.count) * (1 - kReserve));
  return unconstrained(iteration).peak.count > spare;
}

bool Planning::adopt_loaded(Recorded& recorded) {
  const std::string text = std::exchange(loaded_, {});
  try {
    Plan plan = plan_from_json(text, "the loaded plan", recorded.iteration);
    last_ = recorded.iteration;
    if (plan.budget > state_.options.budget) return false;
    layout_.arrange(recorded, plan, recorded.values);
    rearranged_ = 0;
    follower_.adopt(std::move(recorded), std::move(plan));
    return true;
  } catch (const ParseError&) {
    // It was made for another iteration: this one is planned anew.
    return false;
  }
}

void Planning::load(std::string_view json) {
  FERRY_CHECK(json.find("\"ferry_plan\"") != std::string_view::npos, ParseError,
              "load_plan: the text is no plan; save_plan writes one");
  loaded_ = json;
  give_up();
}

Bytes Planning::smallest() const {
  if (last_.ops.empty()) return largest_call_;
  if (!smallest_) {
    const Bytes planned = smallest_budget(last_, planner_options());
    const Bytes peak{static_cast<std::int64_t>(static_cast<double>(planned.count) * (1 - kReserve))};
    smallest_ = std::max(planned, peak + Layout::unfilled(last_));
  }
  return std::max(*smallest_, largest_call_);
}

std::string Planning::explain() const {
  if (!follower_.has_plan()) return "there is no plan: memory is given up by the policy\n";
  return swap::explain(follower_.plan(), follower_.iteration());
}

std::string Planning::save() const {
  return follower_.has_plan() ? plan_to_json(follower_.plan(), follower_.iteration()) : std::string();
}

}  // namespace ferry::swap
