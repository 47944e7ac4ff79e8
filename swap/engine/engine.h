// Keeps the storages of a running program inside a memory budget: notes what ran, evicts when memory is short, and has
// bytes again before they are used, by copying them in or by running the calls once more that made them.
//
// The runtime tells of every op call, inside a Frame: use of each input, then writes and results, then that it ran.
// What a frame uses is locked until its end: it stays where it is. All device work goes through a Mechanism.
//
// The parts, each knowing those before it: History (what was computed from what), Transfers (where bytes are), Room
// (who leaves), Restorer (how they come back), Planning (iterations and their plan). Engine tells each what it has to
// know of a call.
//
// Thread-safety: a Frame holds the engine's mutex, so calls of several threads follow one another.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "swap/engine/engine_state.h"
#include "swap/engine/history.h"
#include "swap/engine/mechanism.h"
#include "swap/engine/planning.h"
#include "swap/engine/restorer.h"
#include "swap/engine/room.h"
#include "swap/engine/transfers.h"

namespace ferry::swap {

class Engine {
 public:
  Engine(EngineOptions options, Mechanism& mechanism);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Whether what a frame uses keeps its address to the frame's end, or may be moved by an allocation: whoever began the
  // frame then reads addresses again where `moved` has changed.
  enum class Addresses : std::uint8_t { stay, may_change };

  // One op call, or a group of uses that belong together. Frames of a thread nest.
  class [[nodiscard]] Frame {
   public:
    Frame(Engine& engine, Addresses addresses);
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Engine& engine_;
    const std::size_t first_held_;
    const Addresses outer_;
  };

  // Requires of all: a Frame of the calling thread.
  // A call begins that reads `inputs`: what the plan has before it is done.
  void before(const ops::OpSchema& schema, ops::TensorPointers inputs);
  // Whether memory was short by now: then it is worth to prepare calls.
  bool is_short() const { return room_.is_short(); }
  // What a call needs is there before it is used one by one, which leaves less in the way of large blocks. Nothing for
  // a storage that the engine does not know. Throws: as use.
  void prepare(ferry::Storage& storage);
  // The storage is on the device after this, locked to the frame's end. Throws: OutOfMemory; what recomputing throws.
  void use(ferry::Storage& storage);
  // Bytes that were moved from one address to another while somebody might know the address, ever.
  Bytes moved() const { return state_.stats.bytes_moved; }
  // It has a valid replica somewhere, and is locked.
  void use_anywhere(ferry::Storage& storage);
  // The call will write it. Requires: it is used by the frame.
  void before_write(ferry::Storage& storage);
  // Where the plan has the call's output, or the copy that is made of a storage now; null: anywhere. What may leave
  // from there has left after this. Throws: DeviceError.
  void* output_place(std::size_t output, Bytes size);
  void* copy_place(ferry::Storage& storage);
  // A copy in may lie elsewhere at first: it is moved to its place before a call uses it, and here. Requires of
  // `arrived`: nobody counts on the storage's address. Throws: DeviceError.
  bool places_arrivals() const { return planning_.is_followed(); }
  void arrived(ferry::Storage& storage);
  // A call's output, or a copy, has memory on the device.
  void made(ferry::Storage& storage);
  void ran(const CallNote& note);
  // Runs calls again at the moment; what they ask for is locked already.
  bool is_replaying() const { return restorer_.is_replaying(); }
  bool follows_order() const { return planning_.follows_order(); }

  // Without a Frame, from any thread.
  // Gives back at least some memory. False: nothing can leave.
  bool make_room(Bytes missing);
  void released(Value& value, ferry::Storage& dying) noexcept;
  // The iteration ends, and the next begins also when this throws: what a plan has after the last call may fail, and
  // what queued work raised comes here too.
  void next_iteration();
  EngineStats stats() const;
  std::string explain() const;
  std::string save_plan() const;
  // Used for the first iteration that it fits. Throws: ParseError.
  void load_plan(std::string_view json);
  // That was recorded whole last; without ops before there is one. Valid until the next iteration ends.
  const Iteration& last_iteration() const { return planning_.last_iteration(); }
  // The smallest budget: the planner's for the last iteration, or before there is one what a single call needed.
  Bytes smallest() const;
  // The budget is over: everything is let go. Storages whose bytes can only be computed are computed first. False: that
  // failed for some; these are still known.
  bool finish() noexcept;
  // Why the last make_room found nothing, beyond that nothing was left; empty if there is no more to say.
  std::string refusal() const;

  // By ~Value.
  void forget(Value& value) noexcept;

 private:
  Value& tracked(ferry::Storage& storage);
  struct Held {
    Value* value;
    Addresses address;
  };
  void hold(Value& value);
  void let_go(const Held& held);
  void bring(Value& value);
  bool repeats(const CallNote& note) const;
  // Its storage died, and others may have to be computed from it.
  void keep_for_others(Value& value, ferry::Storage& dying) noexcept;
  void* cleared(void* place, Bytes size);
  void begin_iteration();

  EngineState state_;
  mutable std::recursive_mutex mutex_;
  Mechanism& mechanism_;
  History history_;
  Transfers transfers_;
  Room room_;
  Restorer restorer_;
  Planning planning_;
  std::vector<Held> held_;                 // locked by frames, innermost last
  Bytes in_use_{};                         // of the values that frames hold, each once
  Addresses addresses_ = Addresses::stay;  // in the innermost frame
  int frames_ = 0;
};

}  // namespace ferry::swap
