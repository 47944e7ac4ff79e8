// Which streams use a block beside its own, and when that work has passed.
//
// record_use remembers a stream; close_use, or else retire, records an event on each such stream; poll returns the
// blocks whose events have all passed. Events are kept and used again. Not thread-safe.
#pragma once

#include <vector>

#include "src/memory/block.h"
#include "src/memory/object_pool.h"

namespace ferry::memory {

struct StreamUse {
  Block* block = nullptr;
  StreamId stream{};
  EventId event{};
  bool recorded = false;
  std::int64_t order = 0;     // in which uses were retired
  StreamUse* next = nullptr;  // of the block, or in its stream's queue
};

class StreamUses {
 public:
  explicit StreamUses(Driver& driver) : driver_(driver) {}
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  // Throws: what Driver::create_event throws, std::bad_alloc; then nothing has changed.
  void record_use(Block& block, StreamId stream);
  // What `stream` does with the block ends with the work that it was given so far, unless record_use says more later.
  // Throws: DeviceError, and then the use is as before.
  void close_use(Block& block, StreamId stream);
  // Takes back what record_use remembered since the block was handed out.
  void forget(Block& block) noexcept;
  // A live block belongs to `owner` from now on; what its stream did with it becomes a use. Throws: as record_use.
  void change_owner(Block& block, StreamId owner);
  // The block's own stream waits on the device for all that the streams which use it were given so far, and the uses
  // are forgotten. Throws: DeviceError, and then nothing is forgotten.
  void order_owner_after(Block& block);
  // The block's own stream comes after what `stream` has done with it so far.
  void end_use(Block& block, StreamId stream) noexcept;
  // The owner gave the block up. True: no other stream uses it. Otherwise a later poll returns it.
  bool retire(Block& block) noexcept;
  // The blocks whose uses have passed since the last call, linked by Block::next. Each block's own stream is ordered
  // after them. Throws: DeviceError; no block is lost.
  Block* poll();
  // As poll, after waiting until there is a block, or for everything retired. Null when nothing is retired.
  Block* wait_one();
  Block* wait();
  // As wait_one, but the host does not wait: the blocks' own streams wait for the uses on the device, those that were
  // retired first before others.
  Block* wait_on_device();
  // Those of one block, which was retired and for which a poll has not come. Returns what is ready, that block among
  // it.
  Block* wait_on_device(Block& block);
  bool idle() const noexcept { return waiting_ == 0 && ready_ == nullptr; }

 private:
  struct Queue {
    StreamUse* head = nullptr;
    StreamUse* tail = nullptr;
  };
  EventId take_event();
  Queue& queue_of(StreamId stream);
  void record(StreamUse& use);  // unless it is
  bool passed(StreamUse& use, bool wait);
  void finish(Queue& queue, StreamUse* before);
  Block* collect(bool wait);

  Driver& driver_;
  std::vector<Queue> queues_;  // by stream
  std::vector<EventId> events_, free_events_;
  ObjectPool<StreamUse> uses_;
  std::int64_t waiting_ = 0;  // retired uses not passed yet
  std::int64_t retired_ = 0;  // since the start
  Block* ready_ = nullptr;
};

}  // namespace ferry::memory
