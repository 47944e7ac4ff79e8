// Carries out a plan while the program repeats the iteration that it was made for. A call that is not the plan's next
// one ends it: the rest of the iteration goes on without.
//
// Storages are asked for at the addresses of a Layout. Where one is not free, the engine does what it would without a
// plan; what it had to do beyond the plan is passed over.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "swap/engine/history.h"
#include "swap/engine/layout.h"
#include "swap/plan.h"

namespace ferry::swap {

class Restorer;
class Room;

class PlanFollower {
 public:
  PlanFollower(EngineStats& stats, Room& room, Restorer& restorer, const Layout& layout)
      : stats_(stats), room_(room), restorer_(restorer), layout_(layout) {}

  // From the next iteration on.
  void adopt(IterationRecorder::Recorded recorded, Plan plan);
  void give_up();
  bool has_plan() const { return plan_.has_value(); }
  // The plan is being followed.
  bool is_active() const { return active_; }
  const Plan& plan() const { return *plan_; }
  const Iteration& iteration() const { return recorded_.iteration; }
  const IterationRecorder::Recorded& recorded() const { return recorded_; }
  // By storage of the iteration; null: unknown or gone.
  std::span<Value* const> values() const { return values_; }

  void begin_iteration();
  // Whether the iteration that ends now was the plan's to the last call. Does what the plan has after it.
  bool end_iteration();
  // The call comes next: does what the plan has before it.
  void before(const ops::OpSchema& schema, ops::TensorPointers inputs);
  void ran(const CallNote& note, const std::shared_ptr<Producer>& producer);
  void forget(Value& value) noexcept;
  // Where the plan has an output of that size of the call that was announced last, and an input that comes from
  // elsewhere, of this call or the next one; null: anywhere. Each is given once.
  void* output_place(Bytes size);
  void* input_place(Bytes size);

 private:
  bool fits(const ops::OpSchema& schema, ops::TensorPointers inputs);
  bool bind(StorageIndex storage, Value& value);
  // It was made in the iteration before and has not been met in this one: the state of a loop, which the plan knows
  // twice, as what was there before and as what is made.
  bool is_carried_over(const Value& value) const;
  void count_place(const Value& value);
  void take_steps(OpIndex until);
  void take(const Step& step, Layout::Range begun);
  void place_arrivals();
  Bytes size_of(std::size_t residency) const;
  void* take_place(std::vector<std::size_t>& residencies, Bytes size);
  void run_again(OpIndex op, Layout::Range begun);
  void bring_in(Value& value, Layout::Range begun);

  EngineStats& stats_;
  Room& room_;
  Restorer& restorer_;
  const Layout& layout_;
  IterationRecorder::Recorded recorded_;
  std::optional<Plan> plan_;
  bool active_ = false;
  std::size_t position_ = 0;  // in the program
  OpIndex next_op_ = 0;
  Layout::Range made_;                              // residencies of the next call's outputs
  std::vector<std::size_t> outputs_;                // those not asked for yet
  std::vector<std::size_t> arriving_;               // residencies of its inputs that come from elsewhere
  std::vector<std::size_t> expected_;               // those of later calls that came already
  std::vector<std::size_t> unplaced_;               // those whose values were not met yet
  std::vector<Value*> values_;                      // by storage; null: unknown or gone
  std::vector<bool> met_;                           // by storage: in this iteration
  std::vector<std::weak_ptr<Producer>> producers_;  // by op
};

}  // namespace ferry::swap
