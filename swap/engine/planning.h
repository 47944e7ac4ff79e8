// The plan of a program's iterations: records one, plans it when memory was short, and has the plan followed while the
// program repeats itself. A program that does not is planned seldom. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "swap/engine/engine_state.h"
#include "swap/engine/iteration_recorder.h"
#include "swap/engine/plan_follower.h"
#include "swap/planner.h"

namespace ferry::swap {

class Planning {
 public:
  // Part of the budget that plans leave to the addresses of blocks, where these are not planned.
  static constexpr double kReserve = 0.03;

  Planning(EngineState& state, Mechanism& mechanism, Room& room, Restorer& restorer)
      : state_(state), layout_(mechanism, room), follower_(state.stats, room, restorer, layout_) {}

  // A call comes next: does what the plan has before it. Throws: what that throws.
  void before(const ops::OpSchema& schema, ops::TensorPointers inputs) { follower_.before(schema, inputs); }
  // `producer`: null if the call cannot be repeated.
  void ran(const CallNote& note, const std::shared_ptr<Producer>& producer);
  // A call held so many bytes at the same time.
  void held(Bytes bytes) { largest_call_ = std::max(largest_call_, bytes); }
  void rewrote(Value& value) {
    if (records_) recorder_.rewrote(value);
  }
  void released(Value& value) {
    if (records_) recorder_.released(value);
  }
  void forget(Value& value) noexcept {
    follower_.forget(value);
    recorder_.forget(value);
  }
  // Whether it matters in which order calls are told of: copies for an input's layout come before their call.
  bool follows_order() const { return records_ || follower_.is_active(); }

  // Where the plan has memory that is allocated next, see PlanFollower.
  void* output_place(Bytes size) { return follower_.output_place(size); }
  void* input_place(Bytes size) { return follower_.input_place(size); }
  // A plan is being followed.
  bool is_followed() const { return follower_.is_active(); }

  // Does what the plan has after the last call.
  void end_iteration();
  // After it. `values`: all that live. Whether the next iteration has another plan than this one. Throws: DeviceError.
  bool plan_next(std::span<Value* const> values);
  // `others`: bytes on the device that no value has.
  void begin_iteration(std::span<Value* const> values, Bytes others, bool was_short);
  void give_up() {
    follower_.give_up();
    layout_.clear();
  }
  // As swap::host_copies. Requires: there is a plan.
  std::vector<std::int64_t> host_copies() const;

  std::string explain() const;
  std::string save() const;
  // Used for the first iteration that it fits. Throws: ParseError.
  void load(std::string_view json);
  const Iteration& last_iteration() const { return last_; }
  // The planner's smallest budget for the last iteration, or before there is one what a single call needed.
  Bytes smallest() const;

 private:
  using Recorded = IterationRecorder::Recorded;
  // Whether there is a plan.
  bool replan(std::span<Value* const> values);
  std::optional<Plan> find_plan(const Recorded& recorded);
  void settle_addresses();
  bool is_worth_planning(const Iteration& iteration);
  bool adopt_loaded(Recorded& recorded);
  PlannerOptions planner_options() const;

  EngineState& state_;
  IterationRecorder recorder_;
  Layout layout_;
  PlanFollower follower_;
  bool followed_ = false;        // the iteration that ended
  std::int64_t rearranged_ = 0;  // iterations in a row that found memory elsewhere
  bool records_ = false;         // this iteration
  Iteration last_;               // that was recorded whole
  Bytes largest_call_{};         // what calls held at the same time
  std::string loaded_;
  mutable std::optional<Bytes> smallest_;  // the planner's, for last_
  std::uint64_t fingerprint_ = 0;          // of last_
  std::int64_t misfits_ = 0;               // iterations in a row that did not follow their plan
};

}  // namespace ferry::swap
