// Replays a trace on a virtual clock: how long it would have taken with other copies, or with ops elsewhere.
//
// Each host thread passes the time that its trace shows between and in its calls. A GPU runs kernels in the order of
// their calls and copies on a link each way: a kernel starts when the host, the kernel before it and the copies of its
// inputs allow, a copy when the host, the link and, towards the host, the kernels before it do. A copy that blocked
// the host blocks it until it has passed, however long that is now. Errors of the model are in both times alike and
// cancel in their difference.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/advisor_cost.h"
#include "src/trace/trace.h"

namespace ferry::placement {

struct AddedCopy {
  trace::OpIndex before = 0;  // the op that needs it; the number of ops: after all
  Device from{}, to{};
  Bytes size{};
  bool operator==(const AddedCopy&) const = default;
};

struct MovedOp {
  trace::OpIndex op = -1;
  Device device{};
};

struct TimelineChanges {
  std::vector<MovedOp> moved{};
  std::vector<std::int64_t> removed{};  // copies
  std::vector<AddedCopy> added{};
};

// Refers to the trace and the costs: they must outlive this.
class Timeline {
 public:
  Timeline(const trace::Trace& trace, const CopyCost& copy_cost, const OpCost& op_cost);

  // Host time of a recorded copy that was no waiting: before it could start, or all of one that did not wait.
  Nanoseconds host_time(std::int64_t copy) const {
    const CopyModel& model = copies_[static_cast<std::size_t>(copy)];
    return model.waits ? model.issue : model.host;
  }
  // By how much the changes shorten the run.
  Nanoseconds saving(const TimelineChanges& changes) const { return recorded_ - duration(changes); }

 private:
  enum class Kind : std::uint8_t { host, op_begin, op, copy };
  // Host time that passes in an op (or with -1 outside), or the beginning of an op, or the end of an op or copy.
  struct Step {
    Kind kind = Kind::host;
    std::size_t thread = 0;
    std::int64_t item = -1;
    Nanoseconds at{}, time{};
  };
  struct CopyModel {
    bool waits = false;
    Nanoseconds issue{};  // host time before the copy could start
    Nanoseconds host{};   // all host time of one that does not wait
    Nanoseconds work{};   // on the link
  };
  struct State;

  void make_steps();
  void make_copies();
  Nanoseconds duration(const TimelineChanges& changes) const;
  void run_op(trace::OpIndex op, std::size_t thread, const Device* moved_to, State& state) const;
  void run_copy(const CopyModel& model, Device from, Device to, trace::OpIndex op, std::size_t thread,
                State& state) const;

  const trace::Trace& trace_;
  const CopyCost& copy_cost_;
  const OpCost& op_cost_;
  std::size_t threads_ = 0;
  std::vector<Step> steps_;
  std::vector<CopyModel> copies_;
  Nanoseconds recorded_{};
};

}  // namespace ferry::placement
