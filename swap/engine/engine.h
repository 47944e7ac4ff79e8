// Keeps the storages of a running program inside a memory budget: notes what ran, evicts when memory is short, and has
// bytes again before they are used, by copying them in or by running the calls once more that made them.
//
// The runtime tells of every op call, inside a Frame: use of each input, then writes and results, then that it ran.
// What a frame uses is locked until its end: it stays where it is. All device work goes through a Mechanism.
//
// Thread-safety: a Frame holds the engine's mutex, so calls of several threads follow one another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "swap/engine/history.h"
#include "swap/engine/iteration_recorder.h"
#include "swap/engine/plan_follower.h"
#include "swap/link.h"
#include "swap/policy.h"
#include "swap/victim_pool.h"

namespace ferry::swap {

// What the engine asks of the device. All work goes in the order of the device's compute stream, except copies.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  // Starts a copy of the device's replica to a new one in pinned host memory, after all compute work so far. False:
  // there is no host memory for it; nothing has changed. Throws: DeviceError.
  virtual bool copy_out(ferry::Storage& storage) = 0;
  // Gives the device's replica back; its memory is reused after the copy out that is under way, if any, and not after
  // those that were started later. Throws: DeviceError, and then nothing has changed.
  virtual void give_back(ferry::Storage& storage) = 0;
  // Moves the host's replica to a file, which returns where; kNowhere: there is no file, nothing has changed. Waits for
  // the copy that fills the replica. Throws: InvalidArgument, DeviceError.
  virtual SpillFile::Offset spill(ferry::Storage& storage) = 0;
  // Makes a host replica of what is there. Throws: OutOfMemory, InvalidArgument.
  virtual void unspill(ferry::Storage& storage, SpillFile::Offset from) = 0;
  virtual void discard(SpillFile::Offset from, Bytes size) noexcept = 0;
  // Starts a copy of the host's replica to a new one on the device, which compute work after it waits for.
  // Throws: OutOfMemory, DeviceError.
  virtual void bring_in(ferry::Storage& storage) = 0;
  // Runs the call on these inputs (null: only shape and type are read). Results are new storages, null where the call
  // has none. Throws: what the call throws.
  virtual std::vector<std::shared_ptr<ferry::Storage>> run_again(const Producer& producer,
                                                                 std::span<ferry::Storage* const> inputs) = 0;
  // As CachingAllocator::cheapest_room.
  virtual std::optional<std::vector<void*>> cheapest_room(Bytes size,
                                                          const std::function<double(void*)>& cost) const = 0;
  // As CachingAllocator::compact. owner(address): whose bytes lie there and may move, null for those that stay. The
  // storage's replica on the device has the new address after it.
  virtual std::optional<Bytes> compact(Bytes size, const std::function<ferry::Storage*(void*)>& owner) = 0;
  // Memory of the budget that no block takes, and that blocks take.
  virtual Bytes free_bytes() const = 0;
  virtual Bytes allocated() const = 0;
};

struct EngineOptions {
  Device device = gpu::device;
  Bytes budget{};  // 0: none but the device's capacity
  Methods methods = Methods::both;
  std::string policy = "hybrid";
  Bytes threshold{};  // 0: none
  VictimPool::Options victims{};
  Link link{};
  bool plans = true;
};

struct EngineStats {
  std::int64_t evictions = 0, recomputations = 0, decisions = 0;
  Nanoseconds recompute_time{}, decision_time{};
  Bytes bytes_out{}, bytes_in{}, bytes_moved{};
  std::int64_t iterations = 0, planned_iterations = 0, plans = 0;
  std::int64_t tracked = 0;
};

class Engine {
 public:
  // Part of the budget that plans leave to the addresses of blocks.
  static constexpr double kReserve = 0.03;

  Engine(EngineOptions options, Mechanism& mechanism);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // One op call, or a group of uses that belong together. Frames of a thread nest.
  class [[nodiscard]] Frame {
   public:
    explicit Frame(Engine& engine);
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Engine& engine_;
    std::size_t first_held_;
  };

  // Requires of all: a Frame of the calling thread.
  // A call begins that reads `inputs`: what the plan has before it is done.
  void before(const ops::OpSchema& schema, ops::TensorPointers inputs);
  // The storage is on the device after this, and locked. Throws: OutOfMemory; what recomputing throws.
  void use(ferry::Storage& storage);
  // It has a valid replica somewhere, and is locked.
  void use_anywhere(ferry::Storage& storage);
  // The call will write it. Requires: it is used by the frame.
  void before_write(ferry::Storage& storage);
  // A call's output, or a copy, has memory on the device.
  void made(ferry::Storage& storage);
  void ran(const CallNote& note);
  // Runs calls again at the moment; what they ask for is locked already.
  bool is_replaying() const { return replaying_; }
  // Whether it matters in which order calls are told of: copies for an input's layout come before their call.
  bool follows_order() const { return records_ || follower_.is_active(); }

  // Without a Frame, from any thread.
  // Gives back at least some memory. False: nothing can leave.
  bool make_room(Bytes missing);
  void released(Value& value, ferry::Storage& dying) noexcept;
  void next_iteration();
  EngineStats stats() const;
  std::string explain() const;
  std::string save_plan() const;
  // Used for the first iteration that it fits. Throws: ParseError.
  void load_plan(std::string_view json);
  // That was recorded whole last; without ops before there is one. Valid until the next iteration ends.
  const Iteration& last_iteration() const { return last_; }
  // The smallest budget: the planner's for the last iteration, or before there is one what a single call needed.
  Bytes smallest() const;
  // The budget is over: everything is let go. Storages whose bytes can only be computed are computed first. False: that
  // failed for some; these are still known.
  bool finish() noexcept;
  // Why the last make_room found nothing, beyond that nothing was left; empty if there is no more to say.
  std::string refusal() const;

  // By History and the plan's follower.
  void forget(Value& value) noexcept;
  void drop(Value& value);
  bool copy_out(Value& value);
  void leave(Value& value);  // starts the copy if none is there
  void bring_in(Value& value);
  void prefetch(Value& value);  // if there is room
  void rerun(const std::shared_ptr<Producer>& producer);
  bool is_resident(const Value& value) const;
  bool has_host_copy(const Value& value) const;

 private:
  friend class Frame;
  struct Replay;

  Value& tracked(ferry::Storage& storage);
  // Its device memory is not to be given back any more.
  void stop_leaving(Value& value) noexcept;
  void hold(Value& value);
  void unlock(Value& value);
  void offer(Value& value);
  void withdraw(Value& value);
  bool may_leave(const Value& value) const;
  Evictable evictable(const Value& value) const;
  Situation situation() const;
  void restore(Value& value);
  void run_again(Producer& producer);
  bool evict(Value& value);
  bool choose_and_evict();
  // By address on the device.
  using Residents = std::unordered_map<const void*, Value*>;
  Residents residents() const;
  bool compact(Bytes size, const Residents& residents);
  bool make_contiguous(Bytes size, const Residents& residents);
  bool give_back_leaving(Bytes missing);
  bool free_unneeded();
  void drop_intermediate();
  void give_back(Value& value);
  bool spill_oldest();
  void unspill(Value& value);
  void discard_file(Value& value) noexcept;
  void note_queue(Bytes bytes, bool out);
  void replan();
  void begin_shortage();

  const EngineOptions options_;
  Mechanism& mechanism_;
  mutable std::recursive_mutex mutex_;
  std::unique_ptr<Policy> policy_;
  VictimPool pool_;
  History history_;
  IterationRecorder recorder_;
  PlanFollower follower_;
  std::vector<Value*> held_;     // locked by frames, innermost last
  std::vector<Value*> leaving_;  // oldest first
  Nanoseconds now_{};            // device time of all ops so far
  CopyQueue out_, in_;           // on that time
  bool replaying_ = false;
  bool making_room_ = false;
  bool only_leaving_ = false;  // a prefetch makes nothing else leave
  bool is_short_ = false;      // memory was short at least once: candidates and their neighbourhood are kept
  bool was_short_ = false;     // in this iteration
  bool records_ = false;       // this iteration, for a plan
  int frames_ = 0;
  bool finished_ = false;
  EngineStats stats_;
  Iteration last_;        // that was recorded whole
  Bytes largest_call_{};  // what calls held at the same time
  std::string loaded_;
  mutable std::optional<Bytes> smallest_;  // the planner's, for last_
  std::uint64_t fingerprint_ = 0;          // of last_
  std::int64_t misfits_ = 0;               // iterations in a row that did not follow their plan
  std::string refusal_;
};

}  // namespace ferry::swap
