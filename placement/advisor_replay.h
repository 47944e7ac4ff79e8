// Replays where a trace's tensors were valid, under a changed placement of some ops.
//
// A tensor may be valid on several devices at once. A read elsewhere is one copy, after which the tensor is valid there
// too; a write leaves it valid only where the op ran; host arguments are read and written in host memory wherever the
// op runs. Tensors do not affect each other, so that only those of the moved ops are replayed.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "placement/advisor_cost.h"
#include "placement/advisor_timeline.h"
#include "src/trace/trace.h"

namespace ferry::placement {

using GroupIndex = std::int32_t;

// The calls of one op at one line (and module path): what a DeviceGuard moves together.
struct Group {
  trace::StringIndex op = -1, scope = -1;
  trace::SiteIndex site = -1;
  Device device{};
  bool movable = true;  // the program places it: no backward, optimizer or rule-placed op, no fetch
  bool has_gpu_kernel = true;
  std::vector<trace::OpIndex> ops{};
  std::vector<GroupIndex> followers{};  // placed where this one is: its backward ops
  GroupIndex leader = -1;               // of a follower
};

struct Change {
  Device device{};
  std::vector<GroupIndex> groups{};  // sorted
  auto operator<=>(const Change&) const = default;
};

struct CopyCount {
  std::int64_t calls = 0, blocking = 0;
};

// The difference that a change makes.
struct Outcome {
  std::map<std::pair<Device, Device>, CopyCount> removed{}, added{};  // implicit copies; explicit ones when added
  std::int64_t hotspot_removed = 0;                                   // of the hotspot's copies
  // What the search goes by: host time of the copies, and time of the groups that get slower; those that get faster
  // are no argument.
  Nanoseconds copies_saved{}, compute_added{};
  bool fits = true;  // in the device's memory
  TimelineChanges changes{};
  Nanoseconds net() const { return copies_saved - compute_added; }
};

// What a change would save of the total time, by replaying the trace with it.
struct Prediction {
  Nanoseconds saved{};
  Nanoseconds host_added{};  // of it lost: host time by which the moved ops get slower
};

// Where each group runs, by group. One that stays where it was recorded has its own device here.
using Places = std::vector<Device>;

// A read, a write, or both, of one tensor by an op; or an explicit copy without an op.
struct TensorUse {
  trace::OpIndex op = -1;
  trace::OpIndex order = 0;  // op, or for an explicit copy the op that follows it
  std::int64_t copy = -1;    // recorded copy of this read; -1: none
  Device explicit_to{};      // where an explicit copy went
  bool read = false, write = false;
  bool host = false;
  bool explicit_copy = false;
};

// Refers to the trace and the model, which may be null: they must outlive this.
class Replay {
 public:
  explicit Replay(const trace::Trace& trace, const CostModel* model = nullptr);

  const trace::Trace& trace() const { return trace_; }
  const std::vector<Group>& groups() const { return groups_; }
  const OpCost& op_cost() const { return op_cost_; }
  const CopyCost& copy_cost() const { return copy_cost_; }
  GroupIndex group_of(trace::OpIndex op) const { return group_of_[static_cast<std::size_t>(op)]; }
  // In order of time. What no op of the trace made is valid at first_home before them.
  const std::vector<TensorUse>& uses(trace::TensorIndex tensor) const {
    return uses_[static_cast<std::size_t>(tensor)];
  }
  Device first_home(trace::TensorIndex tensor) const;

  Places recorded_places() const;
  // How long the run would have taken so. Requires: followers are where their leaders are.
  Nanoseconds duration(const Places& places) const;
  // Bytes that tensors of the trace need on `gpu` at most: each from where it first comes there to its last use, to
  // the end where no op made it.
  Bytes peak_on(Device gpu, const Places& places) const;
  bool can_move(GroupIndex group, Device device) const;
  Outcome evaluate(const Change& change, const trace::Hotspot& hotspot) const;
  Prediction predict(const Outcome& outcome) const;
  // The groups of the same op at the same line in other scopes, itself included: what one rule for op and line moves.
  std::vector<GroupIndex> siblings(GroupIndex group) const;
  // False at the call of a module, for example, where one line runs many ops.
  bool is_alone_at_its_line(GroupIndex group) const;

  // Groups whose tensors or ops the hotspot's copies are about: its op, the tensors' producers and readers.
  std::vector<GroupIndex> groups_around(const trace::Hotspot& hotspot) const;
  // Producers of what the group reads and readers of what it writes, host arguments aside.
  std::vector<GroupIndex> neighbours(GroupIndex group) const;

 private:
  using Use = TensorUse;
  using Direction = std::optional<std::pair<Device, Device>>;

  void make_groups();
  void link_followers();
  void make_uses();
  void match_copies();
  GroupIndex leader_of(const Group& follower, GroupIndex index) const;
  GroupIndex leader_by_reader(const Group& follower) const;
  GroupIndex reader_at_line(GroupIndex maker, trace::SiteIndex site) const;
  void follow(GroupIndex follower, GroupIndex leader);
  // Host time of driver allocations that the places need beyond those of what stays as it was recorded.
  Nanoseconds allocation_time(const Places& places, const TimelineChanges& changes) const;
  // Driver allocations within what was recorded of an op or a copy.
  std::int64_t recorded_allocations(const trace::OpRecord& op, Nanoseconds host) const;
  std::int64_t recorded_allocations(std::int64_t copy) const;
  // What would have to move so that this op does.
  GroupIndex mover_of(trace::OpIndex op) const;
  GroupIndex producer_of(trace::TensorIndex tensor) const;
  Device place_of(const Use& use, const Change* change) const;
  Device place_of(const Use& use, const Places& places) const;
  template <class Where>  // Change* or Places
  std::vector<Direction> copies_of(trace::TensorIndex tensor, const Where& where) const;
  void compare(trace::TensorIndex tensor, const Change& change, const trace::Hotspot& hotspot, Outcome& outcome) const;
  bool in_hotspot(const trace::CopyRecord& copy, const trace::Hotspot& hotspot) const;
  std::vector<GroupIndex> with_followers(const Change& change) const;
  bool fits(const std::vector<GroupIndex>& groups, Device device) const;

  const trace::Trace& trace_;
  const CostModel* model_;
  CopyCost copy_cost_;
  OpCost op_cost_;
  Timeline timeline_;
  std::vector<Group> groups_;
  std::vector<GroupIndex> group_of_;
  std::vector<std::vector<Use>> uses_;  // by tensor, in order of time
};

}  // namespace ferry::placement
