// Runs an iteration on the virtual clock under a budget: keeps account of memory, brings back what ops need (by
// recomputing it or by copying it in) and asks a Strategy what has to leave. Each replay and each trial of the planner
// is one run. The way back to an evicted value is walked with a work stack of its own, not by recursion.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "swap/iteration.h"
#include "swap/link.h"
#include "swap/program.h"
#include "swap/residency.h"

namespace ferry::swap {

// Tensors by storage, computed once for many runs.
struct StorageTensors {
  explicit StorageTensors(const Iteration& iteration);
  std::span<const TensorIndex> of(StorageIndex storage) const {
    const auto s = static_cast<std::size_t>(storage);
    return {tensors.data() + begin[s], tensors.data() + begin[s + 1]};
  }
  std::vector<std::size_t> begin;
  std::vector<TensorIndex> tensors;
};

class Executor;

// Decides for an Executor. The notes come in the order of what happens.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // The position in Iteration::events that comes next; may start copies.
  virtual void before_event(std::size_t /*position*/) {}
  virtual void ran(OpIndex /*op*/, bool /*again*/) {}
  // `storage` is resident and nothing uses it at the moment, or no longer so.
  virtual void evictable(StorageIndex /*storage*/) {}
  virtual void not_evictable(StorageIndex /*storage*/) {}
  // Its value is neither on the device nor on the host now, or is on the device again.
  virtual void dropped(StorageIndex /*storage*/) {}
  virtual void recomputed(StorageIndex /*storage*/) {}
  // Makes something leave by Executor::drop or leave. Returns false if nothing can.
  virtual bool make_room(Bytes missing) = 0;
};

class Executor {
 public:
  struct Options {
    Bytes budget{};
    Bytes threshold{};  // eviction starts above it; only the budget is a must. 0: the budget
    Link link{};
    Nanoseconds time_limit = Nanoseconds::max();  // a run that takes longer is not feasible
    Program* record = nullptr;                    // what was done is appended to it
    ResidencyLog* residencies = nullptr;          // notes when memory is taken and given back
    std::vector<Nanoseconds>* starts =
        nullptr;  // the time at which each op began to run for the first time is appended
  };

  Executor(const Iteration& iteration, const StorageTensors& tensors, const Options& options, Strategy& strategy);

  Cost run();

  // For strategies.
  const Iteration& iteration() const { return iteration_; }
  const Link& link() const { return options_.link; }
  const StorageTensors& tensors() const { return tensors_; }
  Nanoseconds now() const { return now_; }
  bool resident(StorageIndex s) const { return state(s).resident; }
  bool locked(StorageIndex s) const { return state(s).locks > 0; }
  bool released(StorageIndex s) const { return state(s).released; }
  bool has_host_copy(StorageIndex s) const { return state(s).host_ready != kNever; }
  // When its host copy is complete. Requires: has_host_copy.
  Nanoseconds host_copy_ready(StorageIndex s) const { return state(s).host_ready; }
  // Neither on the device nor on the host.
  bool lost(StorageIndex s) const { return !state(s).resident && !has_host_copy(s); }
  Nanoseconds last_access(StorageIndex s) const { return state(s).last_access; }
  Nanoseconds out_tail() const { return out_.tail(); }
  Nanoseconds in_tail() const { return in_.tail(); }
  Bytes budget() const { return options_.budget; }
  Bytes free_now() const { return options_.budget - used_; }
  void count_decision() { ++cost_.decisions; }

  // Requires of all: resident, not locked. drop also takes a storage that is only on the host.
  void drop(StorageIndex storage);
  void copy_out(StorageIndex storage);
  void leave(StorageIndex storage);  // starts the copy if none is there
  // Returns false if there is no memory for it. Requires: not resident, has_host_copy.
  bool bring_in(StorageIndex storage);

 private:
  friend class ProgramRunner;
  static constexpr Nanoseconds kNever = Nanoseconds::max();

  struct State {
    bool resident = false, released = false;
    std::int32_t locks = 0;
    std::int32_t residency = kNone;  // in options.residencies
    std::int64_t leaving = kNone;    // its entry in leaving_queue_, while its block may be had back
    Nanoseconds last_access = Nanoseconds::min();
    Nanoseconds host_ready = kNever;  // end of the copy to the host
    Nanoseconds arrival{};            // end of the last copy to the device
  };
  struct Frame {
    OpIndex op;
    TensorIndex wanted;
    std::size_t first_flag;  // in locked_inputs_, one an input
    std::size_t next = 0;
    bool again;
  };
  // A block that is given back when the copies from and to it have passed.
  struct Leaving {
    Nanoseconds end;
    StorageIndex storage;
    std::int32_t residency;
    std::int64_t number;
  };

  State& state(StorageIndex s) { return states_[static_cast<std::size_t>(s)]; }
  const State& state(StorageIndex s) const { return states_[static_cast<std::size_t>(s)]; }
  const Storage& storage(StorageIndex s) const { return iteration_.storages[static_cast<std::size_t>(s)]; }
  const Tensor& tensor(TensorIndex t) const { return iteration_.tensors[static_cast<std::size_t>(t)]; }
  const Op& op(OpIndex o) const { return iteration_.ops[static_cast<std::size_t>(o)]; }
  bool defined(TensorIndex t) const { return defined_[static_cast<std::size_t>(t)]; }
  bool available(TensorIndex t) const { return defined(t) && resident(tensor(t).storage); }

  void note(Step::Kind kind, std::int32_t index);
  bool fail(std::string reason);
  void lock(StorageIndex s);
  void unlock(StorageIndex s);
  std::int64_t give_back(StorageIndex s, Nanoseconds end);
  void reap();
  bool wait_for_leaving(Bytes bytes);
  bool allocate(Bytes bytes);
  void make_resident(StorageIndex s, bool again);
  void begin_residency(StorageIndex s);
  void end_residency(std::int32_t residency);
  void begin_residencies_of(OpIndex o);
  bool create(TensorIndex t);
  void release(StorageIndex s);
  bool keep(TensorIndex t);

  // Each returns false when the run has failed.
  bool execute(OpIndex o, bool again, TensorIndex wanted);
  void push(OpIndex o, bool again, TensorIndex wanted);
  bool advance();  // the top frame
  bool finish(const Frame& frame);
  Bytes output_bytes(OpIndex o) const;
  void run_end();

  const Iteration& iteration_;
  const StorageTensors& tensors_;
  Options options_;
  Strategy& strategy_;
  std::vector<State> states_;
  std::vector<bool> defined_;
  std::vector<Frame> stack_;
  std::vector<char> locked_inputs_;
  std::vector<std::int32_t> made_;  // residencies of an op's outputs
  std::deque<Leaving> leaving_queue_;
  CopyQueue out_, in_;
  Nanoseconds now_{};
  Bytes used_{}, leaving_{};
  std::int64_t last_leaving_ = kNone;
  Cost cost_;
};

}  // namespace ferry::swap
