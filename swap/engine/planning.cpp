#include "swap/engine/planning.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/check.h"

namespace ferry::swap {
namespace {

constexpr std::int64_t kAlwaysRecorded = 3;
constexpr std::int64_t kMisfits = 3;

// Copies of what lives in pageable memory stay where that is possible: the host would have to stage them again, behind
// all prefetches.
void pin_copies(IterationRecorder::Recorded& recorded, bool pinned) {
  for (const StorageIndex copy : recorded.copies)
    recorded.iteration.storages[static_cast<std::size_t>(copy)].pinned = pinned;
}

}  // namespace

void Planning::ran(const CallNote& note, const std::shared_ptr<Producer>& producer) {
  if (records_) recorder_.ran(note, producer.get());
  follower_.ran(note, producer);
}

bool Planning::end_iteration(std::span<Value* const> values) {
  ++state_.stats.iterations;
  if (follower_.end_iteration()) {
    ++state_.stats.planned_iterations;
    misfits_ = 0;
    return false;
  }
  return records_ && recorder_.ops() > 0 && replan(values);
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
    follower_.give_up();
    return false;
  }
  pin_copies(recorded, true);
  if (!loaded_.empty() && adopt_loaded(recorded)) return true;
  PlannerOptions planner = planner_options();
  planner.find_smallest = false;
  PlanResult result = make_plan(recorded.iteration, planner);
  if (!result.plan && !recorded.copies.empty()) {
    pin_copies(recorded, false);
    result = make_plan(recorded.iteration, planner);
  }
  if (!result.plan) {
    follower_.give_up();
    return false;
  }
  last_ = recorded.iteration;  // with what was pinned: the plan's
  ++state_.stats.plans;
  follower_.adopt(std::move(recorded.iteration), std::move(*result.plan), recorded.values);
  return true;
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
    follower_.adopt(std::move(recorded.iteration), std::move(plan), recorded.values);
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
  follower_.give_up();
}

Bytes Planning::smallest() const {
  if (last_.ops.empty()) return largest_call_;
  if (!smallest_) smallest_ = smallest_budget(last_, planner_options());
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
