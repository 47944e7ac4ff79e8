// The figures of the Profiling Report, computed from a trace. Text, JSON and HTML print these and nothing else.
//
// What the figures mean:
//   Total time      elapsed time while the profiler was on.
//   Computation     the part of it in which at least one kernel ran: on a GPU by its work records; on the CPU the op's
//                   own host interval, without its copies. Overlapping kernels count once.
//   Overhead        the rest: launches, copies, waits and the program itself. Total = computation + overhead.
//   CPU Time        of a call: its host interval without the time in which the host only waited for a copy that is
//                   counted under GPU Time. Waiting for earlier work (draining) is CPU Time.
//   GPU Time        of a call: the time of its kernels and of its copies on the device, by correlation.
//   Total           of a call: CPU Time + GPU Time. Copies are part of the op that caused them and stand under it.
//   Ratio           Total ÷ total time. Host and device overlap: the column may sum to more than 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/copy_check.h"
#include "profiler/report.h"
#include "src/trace/trace.h"

namespace ferry::profiler {

struct Figures {
  std::int64_t calls = 0;
  Nanoseconds cpu{}, gpu{};
  Nanoseconds min{}, max{};  // of one call's total

  Nanoseconds total() const { return cpu + gpu; }
  Nanoseconds average() const { return calls == 0 ? Nanoseconds(0) : total() / calls; }
  void add_call(Nanoseconds cpu_time, Nanoseconds gpu_time);
};

struct CopyRow {
  std::string name;  // "GpuMemcpySync:CPU->GPU"
  bool synchronous = false;
  Figures figures{};
};

struct EventRow {
  std::string name{};
  bool is_scope = false;
  int depth = 0;  // of a scope within scopes
  Figures figures{};
  std::vector<CopyRow> copies{};
};

struct EventTable {
  std::int64_t thread = -1;      // -1: all threads merged
  std::vector<EventRow> rows{};  // scopes as a tree in preorder, then ops; siblings in the order asked for
};

struct MemoryRow {
  trace::DeviceInfo device{};
  Bytes to_device{}, from_device{};
};

// Copies that the program asked for (fetch, transfer), by op, source line and direction; no findings.
struct ExplicitRead {
  trace::StringIndex op = -1;
  trace::SiteIndex site = -1;
  trace::StringIndex scope = -1;
  trace::TensorIndex tensor = -1;  // the first one
  Device from{}, to{};
  trace::CopyCause cause = trace::CopyCause::fetch;
  std::int64_t calls = 0;
  Bytes size{};
  Nanoseconds drain{}, transfer{};

  Nanoseconds blocked() const { return drain + transfer; }
};

// All values that the program read from a device.
struct ReadTotals {
  std::int64_t calls = 0;
  Nanoseconds drain{}, transfer{};

  Nanoseconds blocked() const { return drain + transfer; }
};

struct Summary {
  std::string place{};  // "sim:rtx2080ti"
  bool virtual_time = false;
  Nanoseconds total{}, computation{};
  Figures memcpy{}, memcpy_async{}, memcpy_sync{};
  std::vector<EventTable> tables{};
  std::vector<MemoryRow> memory{};
  std::vector<ExplicitRead> reads{};
  ReadTotals fetches{};
  CopyCheck copy_check{};
  std::vector<trace::Hotspot> findings{};  // options.findings, else those of find_hotspots

  Nanoseconds overhead() const { return total - computation; }
  double ratio(Nanoseconds part) const;
};

Summary summarize(const trace::Trace& trace, const ReportOptions& options);

// Where the op of a hotspot ran, and why. An op on a GPU copies to the CPU what it reads in host memory.
struct Placement {
  Device device{};
  trace::PlacementCause cause = trace::PlacementCause::default_device;
};
Placement placement_of(const trace::Trace& trace, const trace::Hotspot& hotspot);

// "CPU", "GPU"; "GPU:1" where the trace has several GPUs.
std::string device_label(const trace::Trace& trace, Device device);

}  // namespace ferry::profiler
