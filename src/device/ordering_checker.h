// Finds unordered conflicting accesses and uses after free among host threads and device streams, by vector clocks
// kept per memory range. It judges the order that streams, events and host waits promise, not the order that happened.
//
// Actors are the host and (driver, stream) pairs. Every access names an actor, a byte range and what made it. Two
// accesses of overlapping ranges conflict when one writes; a conflict is an error unless the first happens before the
// second. Edges: enqueue (host → stream), program order on a stream, event record → wait, a host wait (stream → host).
// Host threads order one another by means that no driver sees (joins, locks), so what one of them has waited for counts
// as known to all; races between host threads alone are not looked for.
//
// A violation throws OrderingError on the thread that issued the second access, at issue time.
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <ferry/error.h>
#include "src/device/driver.h"

namespace ferry {

// Names both accesses, their streams, the range and the edge that is missing.
class OrderingError : public Error {
  using Error::Error;
};

struct MemoryAccess {
  const void* pointer;
  std::int64_t size;
  bool write;
};

// The bytes that a view spans, first element to last; none (size 0) when it has no elements or was not given.
MemoryAccess access_of(const TensorView& view, bool write);

class OrderingChecker {
 public:
  OrderingChecker();
  ~OrderingChecker();

  // A driver registers once and names its streams; the result prefixes them in messages ("sim:rtx2080ti/compute").
  int add_driver(std::string name);
  void add_stream(int driver, StreamId stream, std::string name);

  // Work `label` was enqueued on a stream by the calling thread and accesses these ranges.
  void enqueued(int driver, StreamId stream, std::string_view label, std::span<const MemoryAccess> accesses);
  // The calling thread itself reads or writes: it must have waited for all conflicting work.
  void host_access(std::string_view label, std::span<const MemoryAccess> accesses);

  void event_recorded(int driver, EventId event, StreamId stream);
  void event_waited(int driver, StreamId stream, EventId event);
  // The calling thread waited for an event, a stream, or everything of a driver.
  void host_waited_event(int driver, EventId event);
  void host_waited_stream(int driver, StreamId stream);
  void host_waited_driver(int driver);

  // [pointer, pointer + size) was handed out for work on `stream` or given back by an allocator; stream -1: host.
  // Accesses between free and the next allocation are uses after free. A freed range may be handed out again for the
  // same stream at once; for another actor the accesses before must happen before it.
  void allocated(int driver, const void* pointer, std::int64_t size, StreamId stream);
  void freed(int driver, const void* pointer, std::int64_t size);
  // The range went back to the system; nothing is remembered of it.
  void forgotten(const void* pointer, std::int64_t size);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferry
