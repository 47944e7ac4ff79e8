// What a trace of any tool says a program did, as plain data: slices of host threads and of GPU streams, and the
// copies among them. Importers write it; the index, the rules and the reports read it.
//
// Times are integer nanoseconds on the trace's own clock, intervals half open [begin, end).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ferry/units.h>
#include "profiler/analysis/names.h"

namespace ferry::profiler::analysis {

// Indices into the tables of an Activity; -1: none.
using TrackIndex = std::int32_t;
using EventIndex = std::int32_t;

// Whose words a fix is given in.
enum class Framework : std::uint8_t { pytorch, tensorflow, jax, paddle, cuda, ferry };

enum class EventKind : std::uint8_t {
  op,          // an operator of the framework
  annotation,  // a named region: a user's range, a step, an NVTX range
  frame,       // a function of the program, "train.py(31): step"
  call,        // a call of CUDA or HIP, or of the tool's own copy
  kernel,      // GPU work from here on
  copy,
  memset,
};
constexpr bool is_gpu_work(EventKind kind) { return kind >= EventKind::kernel; }

// What a call of the GPU's interface does to the host and to streams.
enum class CallClass : std::uint8_t {
  other,   // queries, allocations, events: enqueues no work
  launch,  // kernels, graphs, host functions
  copy,    // synchronous by its contract
  copy_async,
  memset,  // synchronous interface
  memset_async,
  wait_stream,
  wait_event,
  wait_device,
  record_event,
  free_memory,  // waits for the device implicitly
};

// The API's name without suffixes of versions and of default streams ("_v3020", "_v2", "_ptsz") decides.
CallClass classify_call(std::string_view name);
// "cudaMemcpyAsync" for "cudaMemcpyAsync_v3020".
std::string_view plain_call_name(std::string_view name);

struct Event {
  Nanoseconds begin{}, end{};
  std::uint64_t correlation = 0;  // joins a call to the GPU work it enqueued; 0: none
  NameIndex name = -1;
  TrackIndex track = -1;
  std::int32_t detail = -1;  // copy, or a call that says what it copies: into Activity::copies; op: its stack in names
  std::uint32_t external = 0;  // of an op, and of a call that names its op by it; 0: none
  EventKind kind = EventKind::op;
  CallClass call = CallClass::other;

  Nanoseconds duration() const { return end - begin; }
};

enum class Direction : std::uint8_t { unknown, host_to_device, device_to_host, device_to_device, host_to_host };
enum class HostMemory : std::uint8_t { unknown, pageable, pinned, managed };

// What the trace itself recorded of a copy, where it did; it wins over the rules.
enum class RecordedClass : std::uint8_t { none, asynchronous, synchronous, explicit_read, explicit_transfer };

struct CopyDetail {
  Direction direction = Direction::unknown;
  HostMemory memory = HostMemory::unknown;  // of the end that is in host memory
  RecordedClass recorded = RecordedClass::none;
  Bytes size{};
  std::uint64_t source = 0, destination = 0;  // addresses; 0: not recorded
  Nanoseconds drain{-1}, transfer{-1};        // as recorded; -1: not
};

// A host thread or a GPU stream.
struct Track {
  std::string name{};
  NameIndex process = -1, thread = -1;  // as the trace names them
  std::int32_t device = -1;             // of a stream; -1: a host thread
  std::int64_t stream = -1;
};

// What the trace recorded of a wait: whose work it was for.
struct RecordedWait {
  std::uint64_t correlation = 0;  // of the call that waited
  std::int64_t stream = -1;       // -1: not said
  std::uint64_t record = 0;       // correlation of the call that recorded the event it waited for; 0: not said
};

struct Gpu {
  std::int32_t id = 0;
  std::string name{};
};

// What an importer met and went past.
struct Tolerated {
  std::int64_t text_ids = 0;          // events whose process or thread is named by text that is no number
  std::int64_t without_time = 0;      // slices with a missing, malformed or negative duration or time
  std::int64_t unmatched_begins = 0;  // begins without an end, and the reverse
  std::int64_t truncated_at = -1;     // the byte at which the file ends within a value; -1: it is whole
};

struct Activity {
  std::string source{};  // the file's name
  std::string format{};  // "PyTorch profiler", "Nsight Systems"
  Framework framework = Framework::cuda;
  std::int64_t rank = -1;  // of a distributed job; -1: not said
  NamePool names{};
  std::vector<Track> tracks{};
  std::vector<Event> events{};
  std::vector<CopyDetail> copies{};
  std::vector<RecordedWait> waits{};
  std::vector<Gpu> gpus{};
  bool virtual_time = false;
  bool has_launches = true;  // false: the format records no calls, so that GPU work without one is no surprise
  Tolerated tolerated{};
  std::vector<std::string> warnings{};

  std::string_view name_of(const Event& event) const { return names[event.name]; }
};

}  // namespace ferry::profiler::analysis
