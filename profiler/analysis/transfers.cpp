#include <algorithm>
#include <unordered_map>

#include "profiler/analysis/trace_index.h"

namespace ferry::profiler::analysis {

class TransferBuilder {
 public:
  explicit TransferBuilder(TraceIndex& index) : index_(index), activity_(index.activity_) {}

  void build() {
    add_work();
    add_calls_without_work();
    find_waits();
    for (Transfer& transfer : transfers_) {
      decide(transfer);
      measure(transfer);
    }
    std::stable_sort(transfers_.begin(), transfers_.end(),
                     [](const Transfer& a, const Transfer& b) { return a.begin < b.begin; });
    std::erase_if(transfers_, [&](const Transfer& transfer) {
      return transfer.begin < index_.window_.begin || transfer.begin > index_.window_.end;
    });
    for (const Transfer& transfer : transfers_) {
      if (transfer.wait >= 0) index_.claimed_.push_back(transfer.wait);
    }
    std::sort(index_.claimed_.begin(), index_.claimed_.end());
    index_.transfers_ = std::move(transfers_);
  }

 private:
  const Event& event(EventIndex index) const { return index_.event(index); }
  // Tools that write whole microseconds cut times.
  static constexpr Nanoseconds kCut{1000};

  static bool is_copy(CallClass call) { return call == CallClass::copy || call == CallClass::copy_async; }
  static bool enqueues(CallClass call) {
    return call == CallClass::launch || is_copy(call) || call == CallClass::memset || call == CallClass::memset_async;
  }
  static bool waits(CallClass call) {
    return call == CallClass::wait_stream || call == CallClass::wait_event || call == CallClass::wait_device;
  }

  void add_work() {
    for (std::size_t i = 0; i < activity_.events.size(); ++i) {
      const Event& work = activity_.events[i];
      if (!is_gpu_work(work.kind)) continue;
      const EventIndex index = static_cast<EventIndex>(i), launch = index_.launch_of(index);
      if (launch < 0) ++index_.counts_.work_without_launch;
      if (work.kind != EventKind::copy) continue;
      if (launch < 0) ++index_.counts_.copies_without_call;
      add_copy(index, launch);
    }
  }

  void add_copy(EventIndex work, EventIndex call) {
    // A call may copy in several pieces; a graph's copies are many copies of one launch. What a call of an unknown name
    // enqueued tells what it is.
    const bool is_call = call >= 0 && event(call).kind == EventKind::call;
    const bool is_one = is_call && (is_copy(event(call).call) || event(call).call == CallClass::other);
    if (is_one) {
      const auto [known, is_new] = by_call_.try_emplace(call, transfers_.size());
      if (!is_new) {
        Transfer& transfer = transfers_[known->second];
        transfer.size += detail(event(work)).size;
        if (event(work).begin < event(transfer.work).begin) transfer.work = work;
        return;
      }
    }
    Transfer transfer{.call = call, .work = work, .begin = event(call >= 0 ? call : work).begin};
    take(transfer, detail(event(work)));
    if (is_one) take(transfer, detail(event(call)));
    if (call < 0) loose_.push_back(transfers_.size());
    transfers_.push_back(transfer);
  }

  CopyDetail detail(const Event& of) const {
    return of.detail < 0 ? CopyDetail{} : activity_.copies[static_cast<std::size_t>(of.detail)];
  }

  // The GPU's record knows better than the call; the call fills what it left open.
  static void take(Transfer& transfer, const CopyDetail& detail) {
    if (transfer.direction == Direction::unknown) transfer.direction = detail.direction;
    if (transfer.memory == HostMemory::unknown) transfer.memory = detail.memory;
    if (transfer.recorded == RecordedClass::none) transfer.recorded = detail.recorded;
    if (transfer.size == Bytes{}) transfer.size = detail.size;
    if (transfer.source == 0) transfer.source = detail.source;
    if (transfer.destination == 0) transfer.destination = detail.destination;
  }

  // Where correlations are missing: the copy without a call that the GPU did within this one.
  Transfer* find_within(const Event& call, Direction direction) {
    const auto begin_of = [&](std::size_t loose) { return event(transfers_[loose].work).begin; };
    // A call copies in few pieces; more would be searched in vain, again and again.
    std::ptrdiff_t left = 64;
    for (auto at = std::ranges::lower_bound(loose_, call.begin, {}, begin_of);
         at != loose_.end() && begin_of(*at) < call.end && left > 0; ++at, --left) {
      Transfer& transfer = transfers_[*at];
      const bool is_free = transfer.call < 0 && event(transfer.work).end <= call.end + kCut;
      if (is_free && (direction == Direction::unknown || direction == transfer.direction)) return &transfer;
    }
    return nullptr;
  }

  void add_calls_without_work() {
    std::ranges::stable_sort(loose_, {}, [&](std::size_t loose) { return event(transfers_[loose].work).begin; });
    for (std::size_t i = 0; i < activity_.events.size(); ++i) {
      const Event& call = activity_.events[i];
      const EventIndex index = static_cast<EventIndex>(i);
      if (call.kind != EventKind::call || !is_copy(call.call) || by_call_.contains(index)) continue;
      Transfer transfer{.call = index, .begin = call.begin};
      take(transfer, detail(call));
      // A call within another's is that call's own work.
      const EventIndex outer = index_.parents_[i];
      if (outer >= 0 && event(outer).kind == EventKind::call) continue;
      if (Transfer* const found = find_within(call, transfer.direction)) {
        found->call = index;
        found->begin = call.begin;
        take(*found, detail(call));
        by_call_.emplace(index, static_cast<std::size_t>(found - transfers_.data()));
        --index_.counts_.copies_without_call;
        --index_.counts_.work_without_launch;
        continue;
      }
      ++index_.counts_.copies_without_work;
      if (!transfer.crosses()) continue;
      by_call_.emplace(index, transfers_.size());
      transfers_.push_back(transfer);
    }
  }

  // Goes through a thread's calls with the asynchronous copy that was enqueued last, while nothing is after it.
  void find_waits() {
    for (const RecordedWait& wait : activity_.waits) recorded_.emplace(wait.correlation, &wait);
    for (std::size_t track = 0; track < activity_.tracks.size(); ++track) {
      if (activity_.tracks[track].device >= 0) continue;
      Pending pending;
      const auto [first, last] = index_.range(static_cast<TrackIndex>(track));
      for (EventIndex i = first; i < last; ++i) {
        if (event(i).kind == EventKind::call) take_call(i, pending);
      }
    }
  }

  struct Pending {
    std::int64_t transfer = -1;
    EventIndex recorded = -1;  // the last call that recorded an event since
  };

  void take_call(EventIndex index, Pending& pending) {
    const Event& call = event(index);
    const EventIndex outer = index_.parents_[static_cast<std::size_t>(index)];
    const bool is_inner = outer >= 0 && event(outer).kind == EventKind::call;
    const auto known = by_call_.find(index);
    if (known != by_call_.end() || (enqueues(call.call) && !is_inner)) {
      const bool is_pending = call.call != CallClass::copy && known != by_call_.end();
      pending = {is_pending ? static_cast<std::int64_t>(known->second) : -1, -1};
    } else if (call.call == CallClass::record_event) {
      pending.recorded = index;
    } else if (pending.transfer >= 0 && waits(call.call)) {
      Transfer& transfer = transfers_[static_cast<std::size_t>(pending.transfer)];
      if (!is_wait_for(transfer, call, pending.recorded)) return;
      transfer.wait = index;
      pending.transfer = -1;
    }
  }

  bool is_wait_for(const Transfer& transfer, const Event& wait, EventIndex recorded_since) const {
    // Waiting for the whole device is waiting for the data that is read next, not for data that is written.
    if (wait.call == CallClass::wait_device) return transfer.direction == Direction::device_to_host;
    const auto known = wait.correlation == 0 ? recorded_.end() : recorded_.find(wait.correlation);
    const RecordedWait said = known == recorded_.end() ? RecordedWait{} : *known->second;
    // An event tells the end of the copy only when it was recorded after it, by the call that the trace names or any.
    if (wait.call == CallClass::wait_event) {
      if (recorded_since < 0) return false;
      if (said.record != 0 && !is_recorded_after(transfer, said.record)) return false;
    }
    if (said.stream < 0 || transfer.work < 0) return true;
    const std::int64_t stream = activity_.tracks[static_cast<std::size_t>(event(transfer.work).track)].stream;
    return stream < 0 || stream == said.stream;
  }

  bool is_recorded_after(const Transfer& transfer, std::uint64_t record) const {
    const EventIndex call = index_.call_of(record);
    return call < 0 || event(call).begin >= transfer.begin;
  }

  void decide(Transfer& transfer) const {
    if (transfer.recorded != RecordedClass::none) {
      if (transfer.recorded == RecordedClass::synchronous && transfer.crosses()) transfer.evidence = Evidence::recorded;
      return;
    }
    if (!transfer.crosses() || transfer.memory == HostMemory::managed) return;
    const bool has_call = transfer.call >= 0 && event(transfer.call).kind == EventKind::call;
    if (has_call && event(transfer.call).call == CallClass::copy) {
      transfer.evidence = Evidence::synchronous_call;
    } else if (transfer.wait >= 0) {
      transfer.evidence = Evidence::waited_for;
    } else if (transfer.memory == HostMemory::pageable && (transfer.call < 0 || by_call_.contains(transfer.call))) {
      transfer.evidence = Evidence::pageable;
    }
  }

  void measure(Transfer& transfer) const {
    if (transfer.call >= 0 && event(transfer.call).detail >= 0 && transfer.recorded != RecordedClass::none) {
      const CopyDetail recorded = detail(event(transfer.call));
      if (recorded.drain >= Nanoseconds(0) && recorded.transfer >= Nanoseconds(0)) {
        transfer.drain = recorded.drain;
        transfer.blocked = recorded.drain + recorded.transfer;
        return;
      }
    }
    if (transfer.evidence == Evidence::none && !transfer.is_explicit()) return;
    add_blocked(transfer, transfer.call);
    add_blocked(transfer, transfer.wait);
  }

  void add_blocked(Transfer& transfer, EventIndex call) const {
    if (call < 0) return;
    transfer.blocked += event(call).duration();
    if (transfer.work < 0) return;
    // A call that nothing waits for and that returned before the copy began has staged the data: it drained nothing.
    if (transfer.wait < 0 && event(transfer.work).begin >= event(call).end) return;
    transfer.drain += std::clamp(event(transfer.work).begin, event(call).begin, event(call).end) - event(call).begin;
  }

  TraceIndex& index_;
  const Activity& activity_;
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> loose_;  // without a call, by begin
  std::unordered_map<EventIndex, std::size_t> by_call_;
  std::unordered_map<std::uint64_t, const RecordedWait*> recorded_;  // by the waiting call's correlation
};

void join_transfers(TraceIndex& index) { TransferBuilder(index).build(); }

}  // namespace ferry::profiler::analysis
