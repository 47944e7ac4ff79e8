// Who leaves the device: the values that may, the policy's choice among them, and the ways to make room for an
// allocation. What is locked stays. Not thread-safe.
//
// A value that is *leaving* has its host copy under way and keeps its device memory until something needs that.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "swap/engine/engine_state.h"
#include "swap/engine/history.h"
#include "swap/engine/mechanism.h"
#include "swap/engine/transfers.h"
#include "swap/victim_pool.h"

namespace ferry::swap {

struct SmallSegment;

class Room {
 public:
  // Throws: InvalidArgument for an unknown policy.
  Room(EngineState& state, Mechanism& mechanism, History& history, Transfers& transfers);

  // A locked value stays where it is; locks are counted.
  void lock(Value& value) {
    if (value.locks++ == 0) withdraw(value);
  }
  void unlock(Value& value) {
    if (--value.locks == 0) offer(value);
  }
  // A candidate from now on, if it may leave; and not any more.
  void offer(Value& value) {
    if (is_short_) offer_if_it_may_leave(value);
  }
  void withdraw(Value& value) {
    if (is_short_) pool_.remove(value.index);
  }
  // Of its bytes on the device; null: they are not there.
  void* address(const Value& value) const { return transfers_.address(value); }
  // Its device memory is not to be given back any more; the copy out goes on.
  void stop_leaving(Value& value) noexcept {
    if (value.is_leaving) take_from_leaving(value);
  }

  // Gives back at least some memory. False: nothing can leave. Throws: InvalidArgument (the file), DeviceError.
  bool make_room(Bytes missing);
  // Why it found nothing, beyond that nothing was left; empty if there is no more to say.
  const std::string& refusal() const { return refusal_; }
  // Evicts down to options.threshold, if there is one.
  void keep_threshold();
  // Memory was short at least once.
  bool is_short() const { return is_short_; }
  // Whether memory was short since this was asked last.
  bool take_was_short() { return std::exchange(was_short_, false); }
  // While one lives, nothing leaves for an allocation but what is leaving anyway.
  class [[nodiscard]] OnlyLeaving {
   public:
    explicit OnlyLeaving(Room& room) : room_(room), outer_(std::exchange(room.only_leaving_, true)) {}
    ~OnlyLeaving() { room_.only_leaving_ = outer_; }
    OnlyLeaving(const OnlyLeaving&) = delete;
    OnlyLeaving& operator=(const OnlyLeaving&) = delete;

   private:
    Room& room_;
    bool outer_;
  };

  // Starts the copy out of a resident value that stays for now.
  void copy_out_early(Value& value) {
    if (transfers_.is_resident(value)) copy_out(value);
  }
  // Starts the copy out if none is there; device memory goes when something needs it. Nothing if it may not leave.
  void leave(Value& value);
  // It does not wait for something that needs the room. Nothing if it is not leaving. Throws: DeviceError.
  void leave_now(Value& value) {
    if (value.is_leaving) finish_leaving(value);
  }
  // What is leaving there goes, and what is kept there only so that others can be computed and none needs.
  // Throws: DeviceError.
  void clear(const void* address, Bytes size);
  // The same wherever it is leaving. Throws: DeviceError.
  void let_leave();
  // Small values make room at low addresses: between iterations. Throws: DeviceError.
  void raise_small();
  // Copies its bytes on the device to that address. False: that is not free, or they may not move. Throws: DeviceError.
  bool move(Value& value, void* address);
  // The same for one that may still be on its way in; what leaves from there has left after this. Nothing happens if it
  // cannot be there, or is. Requires: nobody counts on its address. Throws: DeviceError.
  void place(Value& value, void* address);
  // Without a copy. Nothing if it is locked or only a copy gives it back.
  void drop(Value& value);
  // An iteration ends: what it computed again, or kept only so that others can be, is of no use to the next. Those that
  // could not leave are candidates again.
  void end_iteration();
  // Nothing is leaving any more.
  void forget_leaving() noexcept;

 private:
  // By address on the device.
  using Residents = std::unordered_map<const void*, Value*>;

  // From now on it matters who leaves.
  void begin_shortage();
  void offer_if_it_may_leave(Value& value);
  bool may_leave(const Value& value) const;
  void take_from_leaving(Value& value) noexcept;
  Evictable evictable(const Value& value) const;
  Situation situation() const;
  bool copy_out(Value& value);
  bool evict(Value& value);
  bool evict_withdrawn(Value& value);
  bool needs_little_room(const Value& value) const;
  bool choose_and_evict();
  void finish_leaving(Value& value);
  bool give_back_leaving(Bytes missing);
  bool free_unneeded();
  Residents residents() const;
  bool gather(Bytes missing);
  bool is_time_to_gather();
  // Counts what `decide` takes as time of decisions.
  template <class F>
  auto timed(F&& decide) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = decide();
    state_.stats.decision_time += std::chrono::steady_clock::now() - begin;
    return result;
  }
  bool may_move(const Value& value) const;
  bool is_coming_in(const Value& value) const;
  bool compact(Bytes size, const Residents& residents, bool is_last_resort = false);
  std::vector<SmallSegment> small_segments(std::span<Value* const> values) const;
  bool empty_small_segment(const Residents& residents);
  bool make_contiguous(Bytes size, const Residents& residents);

  EngineState& state_;
  Mechanism& mechanism_;
  History& history_;
  Transfers& transfers_;
  std::unique_ptr<Policy> policy_;
  VictimPool pool_;
  std::deque<Value*> leaving_;  // oldest first
  bool making_room_ = false;
  bool only_leaving_ = false;
  bool some_refused_ = false;  // in this iteration, for want of host memory
  bool is_short_ = false;      // memory was short at least once: candidates and their neighbourhood are kept
  bool was_short_ = false;     // since take_was_short
  std::int64_t looks_ = 0;     // at residents that shortages since the last gathering may have had
  std::string refusal_;
};

}  // namespace ferry::swap
