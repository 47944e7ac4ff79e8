#include "swap/engine/restorer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace ferry::swap {

// The calls that run again, each for the one before it. Their operands are locked while they wait. The way back is
// walked with this stack instead of the thread's: chains may be long.
class Restorer::Stack {
 public:
  Stack(Room& room, const Nanoseconds& now) : room_(room), now_(now) {}
  ~Stack() {
    while (!calls_.empty()) pop();
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  struct Call {
    std::shared_ptr<Producer> producer;
    std::size_t next = 0;  // operand to look at
  };

  bool empty() const { return calls_.empty(); }
  Call& top() { return calls_.back(); }
  void push(const std::shared_ptr<Producer>& producer) {
    calls_.push_back({producer});
    for (Operand& operand : producer->operands) {
      if (operand.value == nullptr) continue;
      operand.value->last_access = now_;
      room_.lock(*operand.value);
    }
  }
  void pop() {
    for (Operand& operand : calls_.back().producer->operands)
      if (operand.value != nullptr) room_.unlock(*operand.value);
    calls_.pop_back();
  }

 private:
  Room& room_;
  const Nanoseconds& now_;
  std::vector<Call> calls_;
};

void Restorer::restore(Value& wanted) {
  if (transfers_.has_host_copy(wanted)) return bring_in(wanted);
  FERRY_CHECK(wanted.producer != nullptr, InvalidArgument, "a tensor of {} was dropped and cannot be computed again",
              to_string(wanted.size));
  Stack stack(room_, state_.now);
  stack.push(wanted.producer);
  while (!stack.empty()) {
    Stack::Call& top = stack.top();
    if (const std::shared_ptr<Producer> missing = bring_inputs(*top.producer, top.next)) {
      stack.push(missing);
    } else {
      run_again(*top.producer);
      stack.pop();
    }
  }
}

// Goes on to the first input that has to be computed, and returns the call that makes it; null: all are there.
std::shared_ptr<Producer> Restorer::bring_inputs(Producer& producer, std::size_t& next) {
  while (next < producer.operands.size()) {
    Value* const value = producer.operands[next++].value;
    if (value == nullptr) continue;
    room_.stop_leaving(*value);
    if (transfers_.is_resident(*value)) continue;
    if (transfers_.has_host_copy(*value)) {
      bring_in(*value);
      continue;
    }
    FERRY_CHECK(value->producer != nullptr, InvalidArgument, "an input of {} is gone and cannot be computed again",
                producer.schema->name);
    return value->producer;
  }
  return nullptr;
}

void Restorer::run_again(Producer& producer) {
  std::vector<ferry::Storage*> inputs;
  for (const Operand& operand : producer.operands)
    inputs.push_back(operand.value == nullptr ? nullptr : operand.value->bytes());
  // The call tells nobody of its inputs; where these move, it reads their addresses again.
  struct Replaying {
    Restorer& restorer;
    const bool outer;
    const Producer* const outer_call;
    Replaying(Restorer& it, const Producer& again)
        : restorer(it), outer(std::exchange(it.replaying_, true)), outer_call(std::exchange(it.replayed_, &again)) {}
    ~Replaying() {
      restorer.replayed_ = outer_call;
      restorer.replaying_ = outer;
    }
  };
  std::vector<std::shared_ptr<ferry::Storage>> results;
  {
    const Replaying replaying(*this, producer);
    results = mechanism_.run_again(producer, inputs);
  }
  ++state_.stats.recomputations;
  adopt(producer, results);
}

void* Restorer::result_place(std::size_t result) const {
  const Value* const value = result < replayed_->results.size() ? replayed_->results[result] : nullptr;
  return value == nullptr || has_bytes(*value) ? nullptr : value->place;
}

// Puts the memory of new results into the storages that lack it.
void Restorer::adopt(const Producer& producer, std::vector<std::shared_ptr<ferry::Storage>>& results) {
  for (std::size_t i = 0; i < results.size() && i < producer.results.size(); ++i) {
    Value* const value = producer.results[i];
    if (value == nullptr || results[i] == nullptr || has_bytes(*value)) continue;
    if (value->storage != nullptr) {
      value->storage->exchange_replicas(*results[i]);
    } else {
      value->own = std::move(results[i]);
    }
    history_.mark_restored(*value);
    room_.offer(*value);
  }
}

void Restorer::rerun(const std::shared_ptr<Producer>& producer) {
  if (replaying_) return;
  const auto absent = std::ranges::find_if(producer->results,
                                           [](const Value* value) { return value != nullptr && !has_bytes(*value); });
  if (absent == producer->results.end()) return;
  try {
    restore(**absent);
  } catch (const OutOfMemory&) {
    // The plan's addresses were not these. Whoever needs it computes it.
  }
}

void Restorer::bring_in(Value& value) {
  if (transfers_.is_resident(value)) {
    room_.stop_leaving(value);
  } else if (transfers_.has_host_copy(value)) {
    transfers_.copy_in(value);
  } else {
    return;
  }
  room_.offer(value);
}

void Restorer::prefetch(Value& value) {
  const Room::OnlyLeaving only_leaving(room_);
  try {
    bring_in(value);
  } catch (const OutOfMemory&) {
    // The plan's addresses were not these. Whoever needs it brings it.
  }
}

}  // namespace ferry::swap
