// Writes down what a running program does in one iteration, for the planner. A storage is recorded once; calls that
// write in place make new names for the same storage, which then can only be swapped.
#pragma once

#include <span>
#include <vector>

#include "swap/engine/history.h"
#include "swap/iteration.h"

namespace ferry::swap {

class IterationRecorder {
 public:
  // A new iteration, in which these are there already; `others`: bytes on the device that nothing is known of.
  void begin(std::span<Value* const> values, Bytes others);
  void ran(const CallNote& note, Producer* producer);
  // Its storage died.
  void released(Value& value);
  // Its contents before are gone: what was computed from them cannot be computed again.
  void rewrote(Value& value);
  void forget(Value& value) noexcept { value.recorded = kNone; }

  struct Recorded {
    Iteration iteration;
    std::vector<Value*> values;        // by storage; null: gone
    std::vector<StorageIndex> copies;  // of what lives in pageable host memory
    StorageIndex present = 0;          // so many storages were there at the beginning, the first ones
    StorageIndex others = kNone;       // of them, bytes that nothing is known of
  };
  // What was recorded so far, with all that lives now kept at the end.
  Recorded end(std::span<Value* const> values) const;
  std::size_t ops() const { return iteration_.ops.size(); }

 private:
  TensorIndex name_of(Value& value);
  // Each once. None: something of it has no name, for it was written since, or was gone when the iteration began.
  std::vector<TensorIndex> names_read_by(const Producer& producer) const;
  // The op's results are made by another call when it runs again.
  void read_again(Op& op, const Producer& producer);
  // The storage dies. Where the op that made it would have read it again, and nothing was computed from the op's
  // results yet, all that comes of them is computed without it: the op runs again as it did, and makes it too.
  void make_again(StorageIndex storage);
  TensorIndex add(StorageIndex storage, OpIndex producer);
  StorageIndex add_storage(Bytes size, bool recomputable, bool pinned);
  void mark_descendants(StorageIndex storage);

  Iteration iteration_;
  std::vector<StorageIndex> copies_;
  StorageIndex present_ = 0, others_ = kNone;
  std::vector<TensorIndex> latest_;            // by storage
  std::vector<bool> released_, marked_;        // by storage
  std::vector<std::vector<OpIndex>> readers_;  // by storage
};

// The values that a call reads, each once, in order. Null: not known to the engine.
std::vector<Value*> values_read(const ops::OpSchema& schema, ops::TensorPointers inputs);

}  // namespace ferry::swap
