// Has bytes again before they are used: copied in, or computed by running the calls once more that made them. Makes no
// room itself; allocations do. Not thread-safe.
#pragma once

#include <memory>

#include "swap/engine/room.h"

namespace ferry::swap {

class Restorer {
 public:
  Restorer(EngineState& state, Mechanism& mechanism, History& history, Transfers& transfers, Room& room)
      : state_(state), mechanism_(mechanism), history_(history), transfers_(transfers), room_(room) {}

  // The value is on the device after this. Requires: it is locked, or nothing can leave. Throws: OutOfMemory; what the
  // calls throw that run again; InvalidArgument if it cannot be had, which is a defect. What was restored by then
  // stays.
  void restore(Value& value);
  // The same for one with a host copy; one that is leaving stays. Nothing for others.
  void bring_in(Value& value);
  // The same, if there is room without making anything leave.
  void prefetch(Value& value);
  // Has all results of the call, if there is room. Throws: what the calls throw, save OutOfMemory.
  void rerun(const std::shared_ptr<Producer>& producer);
  // A call runs again at the moment: what it asks for is locked already.
  bool is_replaying() const { return replaying_; }
  // Then: where the plan has the result of the call that lacks memory; null: anywhere.
  void* result_place(std::size_t result) const;

 private:
  class Stack;

  std::shared_ptr<Producer> bring_inputs(Producer& producer, std::size_t& next);
  void run_again(Producer& producer);
  void adopt(const Producer& producer, std::vector<std::shared_ptr<ferry::Storage>>& results);

  EngineState& state_;
  Mechanism& mechanism_;
  History& history_;
  Transfers& transfers_;
  Room& room_;
  bool replaying_ = false;
  const Producer* replayed_ = nullptr;  // while it runs again
};

}  // namespace ferry::swap
