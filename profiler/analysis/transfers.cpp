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
    // A call may copy in several pieces; a graph's copies are many copies of one launch.
    const bool is_one = call >= 0 && event(call).kind == EventKind::call && is_copy(event(call).call);
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

  void add_calls_without_work() {
    for (std::size_t i = 0; i < activity_.events.size(); ++i) {
      const Event& call = activity_.events[i];
      const EventIndex index = static_cast<EventIndex>(i);
      if (call.kind != EventKind::call || !is_copy(call.call) || by_call_.contains(index)) continue;
      Transfer transfer{.call = index, .begin = call.begin};
      take(transfer, detail(call));
      // A call within another's is that call's own work.
      const EventIndex outer = index_.parents_[i];
      if (outer >= 0 && event(outer).kind == EventKind::call) continue;
      ++index_.counts_.copies_without_work;
      if (!transfer.crosses()) continue;
      by_call_.emplace(index, transfers_.size());
      transfers_.push_back(transfer);
    }
  }

  void find_waits() {
    std::unordered_map<std::uint64_t, std::int64_t> streams;  // of waits
    for (const RecordedWait& wait : activity_.waits) streams.emplace(wait.correlation, wait.stream);
    for (std::size_t track = 0; track < activity_.tracks.size(); ++track) {
      if (activity_.tracks[track].device >= 0) continue;
      std::int64_t pending = -1;  // the transfer that was enqueued last, with nothing after it
      bool event_recorded = false;
      const auto [first, last] = index_.range(static_cast<TrackIndex>(track));
      for (EventIndex i = first; i < last; ++i) {
        const Event& call = event(i);
        if (call.kind != EventKind::call) continue;
        const EventIndex outer = index_.parents_[static_cast<std::size_t>(i)];
        const bool is_inner = outer >= 0 && event(outer).kind == EventKind::call;
        if (enqueues(call.call) && (!is_inner || by_call_.contains(i))) {
          const auto known = by_call_.find(i);
          pending = call.call == CallClass::copy_async && known != by_call_.end()
                        ? static_cast<std::int64_t>(known->second)
                        : -1;
          event_recorded = false;
        } else if (call.call == CallClass::record_event) {
          event_recorded = true;
        } else if (pending >= 0 && waits(call.call)) {
          Transfer& transfer = transfers_[static_cast<std::size_t>(pending)];
          if (!is_wait_for(transfer, call, streams, event_recorded)) continue;
          transfer.wait = i;
          pending = -1;
        }
      }
    }
  }

  bool is_wait_for(const Transfer& transfer, const Event& wait,
                   const std::unordered_map<std::uint64_t, std::int64_t>& streams, bool event_recorded) const {
    // Waiting for the whole device is waiting for the data that is read next, not for data that is written.
    if (wait.call == CallClass::wait_device) return transfer.direction == Direction::device_to_host;
    // An event tells the end of the copy only when it was recorded after it.
    if (wait.call == CallClass::wait_event && !event_recorded) return false;
    const auto known = streams.find(wait.correlation);
    if (wait.correlation == 0 || known == streams.end() || known->second < 0 || transfer.work < 0) return true;
    const std::int64_t stream = activity_.tracks[static_cast<std::size_t>(event(transfer.work).track)].stream;
    return stream < 0 || stream == known->second;
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
    } else if (transfer.memory == HostMemory::pageable &&
               (transfer.call < 0 || (has_call && is_copy(event(transfer.call).call)))) {
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
  std::unordered_map<EventIndex, std::size_t> by_call_;
};

void join_transfers(TraceIndex& index) { TransferBuilder(index).build(); }

}  // namespace ferry::profiler::analysis
