// Carries out a plan while the program repeats the iteration that it was made for. A call that is not the plan's next
// one ends it: the rest of the iteration goes on without.
//
// The plan counts bytes, the device has addresses: what the engine had to do beyond the plan is passed over.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "swap/engine/history.h"
#include "swap/plan.h"

namespace ferry::swap {

class Restorer;
class Room;

class PlanFollower {
 public:
  PlanFollower(Room& room, Restorer& restorer) : room_(room), restorer_(restorer) {}

  // From the next iteration on. `values` by storage of the iteration: those that live on.
  void adopt(Iteration iteration, Plan plan, std::span<Value* const> values);
  void give_up();
  bool has_plan() const { return plan_.has_value(); }
  // The plan is being followed.
  bool is_active() const { return active_; }
  const Plan& plan() const { return *plan_; }
  const Iteration& iteration() const { return iteration_; }

  void begin_iteration();
  // Whether the iteration that ends now was the plan's to the last call. Does what the plan has after it.
  bool end_iteration();
  // The call comes next: does what the plan has before it.
  void before(const ops::OpSchema& schema, ops::TensorPointers inputs);
  void ran(const CallNote& note, const std::shared_ptr<Producer>& producer);
  void forget(Value& value) noexcept;

 private:
  bool fits(const ops::OpSchema& schema, ops::TensorPointers inputs);
  bool bind(StorageIndex storage, Value& value);
  // It was made in the iteration before and has not been met in this one: the state of a loop, which the plan knows
  // twice, as what was there before and as what is made.
  bool is_carried_over(const Value& value) const;
  void take_steps(OpIndex until);
  void take(const Step& step);

  Room& room_;
  Restorer& restorer_;
  Iteration iteration_;
  std::optional<Plan> plan_;
  bool active_ = false;
  std::size_t position_ = 0;  // in the program
  OpIndex next_op_ = 0;
  std::vector<Value*> values_;                      // by storage; null: unknown or gone
  std::vector<bool> met_;                           // by storage: in this iteration
  std::vector<std::weak_ptr<Producer>> producers_;  // by op
};

}  // namespace ferry::swap
