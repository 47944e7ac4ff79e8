// The trace of a run as plain data: ops, tensors, copies, device work, scopes and memory. The recorder writes it, the
// report, the exporters and the advisor read it. All times are Nanoseconds on the runtime's clock, intervals are half
// open [begin, end).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ferry/device.h>
#include <ferry/dtype.h>
#include <ferry/shape.h>
#include <ferry/units.h>

namespace ferry::trace {

// Indices into the tables of a Trace; -1: none.
using SiteIndex = std::int32_t;
using StringIndex = std::int32_t;
using OpIndex = std::int64_t;
using TensorIndex = std::int32_t;

// A line of the user's program.
struct Site {
  std::string file{};
  int line = 0;
  std::string function{};
};

struct TensorInfo {
  std::string name{};  // "<op>_<n>" or the name the user gave
  DType dtype = DType::f32;
  Shape shape{};
  Bytes size{};
};

enum class Phase : std::uint8_t { forward, backward, optimizer, recompute };
enum class PlacementCause : std::uint8_t { default_device, guard, placement_file, op_rule, fallback, inherited };
enum class Memory : std::uint8_t { device, pageable, pinned };

// How an op uses one argument.
struct Argument {
  TensorIndex tensor = -1;
  bool host = false;  // read or written in host memory wherever the op runs (host_input, host_output)
};

struct OpRecord {
  StringIndex name = -1;   // schema name, "conv2d"
  SiteIndex site = -1;     // the user's line
  StringIndex scope = -1;  // module path or user scope, "layer3.0.conv2"
  Device device{};
  PlacementCause cause = PlacementCause::default_device;
  Phase phase = Phase::forward;
  std::uint32_t thread = 0;
  std::uint64_t correlation = 0;  // of its kernel; 0: none was launched
  Nanoseconds begin{}, end{};     // host interval, copies of its inputs included
  std::vector<Argument> inputs{}, outputs{};
  double flops = 0, bytes = 0;
  bool has_gpu_kernel = true;  // false: could only run on the CPU
};

enum class CopyCause : std::uint8_t {
  implicit,  // an op ran elsewhere than its input lived
  fetch,     // the program read a value
  transfer,  // the program asked for a copy to a device
  swap,      // a memory budget took the bytes off the device, or brought them back
};

// One transfer between host and a device (or two devices).
struct CopyRecord {
  OpIndex op = -1;           // the op that needed it; -1: none
  StringIndex op_name = -1;  // that op's name, or "fetch", "to"
  SiteIndex site = -1;
  StringIndex scope = -1;
  TensorIndex tensor = -1;
  Bytes size{};
  Device from{}, to{};
  Memory from_memory = Memory::device, to_memory = Memory::device;
  bool synchronous = false;  // the host was blocked by an implicit copy until it had passed
  CopyCause cause = CopyCause::implicit;
  PlacementCause placement = PlacementCause::default_device;  // why the op ran where it did
  std::uint32_t thread = 0;
  std::uint64_t correlation = 0;
  Nanoseconds begin{}, end{};  // host interval: enqueue, and the wait where there was one
  Nanoseconds drain{};         // of it, waiting for earlier work
  Nanoseconds transfer{};      // of it, waiting for the copy itself
};

enum class WorkKind : std::uint8_t { kernel, copy };
enum class Engine : std::uint8_t { compute, host_to_device, device_to_host };

// A kernel or copy on a device.
struct WorkRecord {
  std::uint64_t correlation = 0;  // of the OpRecord or CopyRecord that enqueued it
  WorkKind kind = WorkKind::kernel;
  Engine engine = Engine::compute;
  Device device{};
  std::int32_t stream = 0;
  Nanoseconds begin{}, end{};
};

// A user scope or a module call.
struct ScopeRecord {
  StringIndex name = -1;
  std::uint32_t thread = 0;
  std::int32_t depth = 0;
  Nanoseconds begin{}, end{};
};

struct MemorySample {
  Device device{};
  Nanoseconds at{};
  Bytes allocated{}, reserved{};
};

struct DeviceInfo {
  Device device{};
  std::string name{};  // "sim:rtx2080ti"
  std::string description{};
  bool virtual_time = false;
  Bytes capacity{};
  Bytes peak_allocated{}, peak_reserved{};
  std::vector<std::string> streams{};  // names by stream number
};

struct Trace {
  std::vector<std::string> strings{};
  std::vector<Site> sites{};
  std::vector<TensorInfo> tensors{};
  std::vector<DeviceInfo> devices{};  // cpu first
  std::vector<OpRecord> ops{};        // in order of begin, per thread
  std::vector<CopyRecord> copies{};
  std::vector<WorkRecord> work{};
  std::vector<ScopeRecord> scopes{};
  std::vector<MemorySample> memory{};
  Nanoseconds begin{}, end{};          // while the recorder was on
  std::string copy_mode{};             // "staged" or "synchronous"
  std::int64_t unavailable_reads = 0;  // values read in timing-only mode

  const std::string& string(StringIndex i) const;  // "" for -1
};

// A change the advisor computed: which op to put where, and what that saves. Plain data: placement writes it, the
// report prints it.
struct Advice {
  std::vector<SiteIndex> sites{};  // lines to wrap, in program order
  std::vector<StringIndex> ops{};  // their op names
  Device device{};                 // into DeviceGuard<…> of this device
  std::int64_t copies_removed = 0, copies_added = 0;
  Nanoseconds blocked_saved{};  // host time no longer blocked
  Nanoseconds compute_added{};  // ops that take longer on that device
  std::string text{};           // one sentence a reader can act on
};

// Synchronous copies of one op at one line.
struct Hotspot {
  StringIndex op_name = -1;
  SiteIndex site = -1;
  StringIndex scope = -1;
  TensorIndex tensor = -1;  // the first one copied there
  Device from{}, to{};
  std::int64_t calls = 0;
  Bytes size{};
  Nanoseconds blocked{}, drain{}, transfer{};
  std::vector<Advice> advice{};  // best first; empty: no placement removes it
};

}  // namespace ferry::trace
