// An activity made ready for questions: which slice encloses which, which call enqueued which GPU work, what a copy
// made the host wait for, where steps begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/analysis/activity.h"

namespace ferry::profiler::analysis {

struct Interval {
  Nanoseconds begin{}, end{};

  bool contains(Nanoseconds time) const { return begin <= time && time < end; }
};

// Why a copy counts as synchronous.
enum class Evidence : std::uint8_t {
  none,              // it does not: the host went on
  recorded,          // the trace says so
  synchronous_call,  // the interface is synchronous
  waited_for,        // its thread waited for its stream next, with nothing enqueued between
  pageable,          // an end in pageable memory
};

// One copy between host and device, or between devices.
struct Transfer {
  EventIndex call = -1;  // on the host
  EventIndex work = -1;  // on the GPU, the first of several
  EventIndex wait = -1;  // the call that waited for it
  Direction direction = Direction::unknown;
  HostMemory memory = HostMemory::unknown;
  RecordedClass recorded = RecordedClass::none;
  Evidence evidence = Evidence::none;
  Bytes size{};
  std::uint64_t source = 0, destination = 0;
  Nanoseconds begin{};    // of the call; of the work where no call was recorded
  Nanoseconds blocked{};  // host time of the call and of the wait; 0 where no call was recorded
  Nanoseconds drain{};    // of it, before the copy began on the GPU
  Nanoseconds copying() const { return blocked - drain; }

  bool crosses() const { return direction == Direction::host_to_device || direction == Direction::device_to_host; }
  // A synchronous copy between host and device.
  bool is_synchronous() const { return evidence != Evidence::none; }
  // The program asked for the value or the copy, and the trace says so.
  bool is_explicit() const {
    return recorded == RecordedClass::explicit_read || recorded == RecordedClass::explicit_transfer;
  }
};

struct Step {
  std::int64_t number = -1;  // -1: the name has none
  Interval time{};
};

// GPU work of one device within the window.
struct GpuUse {
  std::int32_t device = 0;
  std::vector<Interval> busy{};  // in order, apart from each other
  Nanoseconds total{};           // their sum
  std::int64_t kernels = 0;
};

// What the join could not place.
struct JoinCounts {
  std::int64_t work_without_launch = 0;
  std::int64_t copies_without_call = 0;  // among them
  std::int64_t copies_without_work = 0;  // calls that copy and have no GPU record
  std::int64_t overlapping = 0;          // slices of a thread that cross another's end
};

class TraceIndex {
 public:
  // `step`: only what begins within the step of this number counts.
  // Requires: the activity's events are sorted as import_trace leaves them.
  // Throws: InvalidArgument when the trace marks no such step (naming those it has).
  explicit TraceIndex(Activity activity, std::optional<std::int64_t> step = std::nullopt);

  const Activity& activity() const { return activity_; }
  const Event& event(EventIndex index) const { return activity_.events[static_cast<std::size_t>(index)]; }
  std::string_view name(EventIndex index) const { return index < 0 ? "" : activity_.name_of(event(index)); }

  // The slice that encloses a host slice next, -1 for outermost ones. A call that none encloses is placed by the op
  // that its external id names.
  EventIndex parent(EventIndex index) const;
  // The outermost of the ops that directly enclose each other and the event: what the program called.
  EventIndex op_of(EventIndex index) const;
  // Names of the ops around an event, outermost first.
  std::vector<std::string_view> op_chain(EventIndex index) const;
  // Where in the program: the innermost function around the event that is none of the framework, else the same of the
  // stack that the ops recorded; "" where the trace has neither.
  std::string_view frame_of(EventIndex index) const;
  // The innermost host slice of the track at a time, -1: none.
  EventIndex slice_at(TrackIndex track, Nanoseconds time) const;
  // The call that enqueued GPU work; -1: not recorded.
  EventIndex launch_of(EventIndex work) const { return call_of(event(work).correlation); }
  // The host's call of a correlation; -1 for 0 and where none was recorded.
  EventIndex call_of(std::uint64_t correlation) const;

  // By begin. Those outside of the window are left out.
  const std::vector<Transfer>& transfers() const { return transfers_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<GpuUse>& gpus() const { return gpus_; }
  const JoinCounts& counts() const { return counts_; }
  // From the first to the last event; a step's interval when one was asked for.
  Interval window() const { return window_; }
  Nanoseconds span() const { return window_.end - window_.begin; }
  bool is_claimed(EventIndex wait) const;  // a copy of transfers() waits with it
  // The events of a track, as a range of indices.
  std::pair<EventIndex, EventIndex> range(TrackIndex track) const { return ranges_[static_cast<std::size_t>(track)]; }

 private:
  friend class TransferBuilder;

  void find_ranges();
  void find_parents();
  void find_steps(std::optional<std::int64_t> step);
  void find_launches();
  void measure_gpus();

  Activity activity_;
  std::vector<EventIndex> parents_;
  std::vector<std::pair<EventIndex, EventIndex>> ranges_;       // by track
  std::vector<std::pair<std::uint64_t, EventIndex>> launches_;  // by correlation
  std::vector<std::pair<std::uint32_t, EventIndex>> external_;  // ops by external id
  std::vector<Transfer> transfers_;
  std::vector<EventIndex> claimed_;  // sorted
  std::vector<Step> steps_;
  std::vector<GpuUse> gpus_;
  JoinCounts counts_;
  Interval window_{};
};

// Fills transfers, their evidence and what they cost.
void join_transfers(TraceIndex& index);

}  // namespace ferry::profiler::analysis
