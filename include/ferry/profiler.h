// Profiler: records what the current runtime does while it lives and reports on it.
//
//   Profiler profiler;
//   train();
//   fmt::print("{}", profiler.report());
//
// Thread-safety: it records the ops of all threads, but starts and stops while no other thread runs one.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include <ferry/units.h>

namespace ferry {

struct ProfileReportOptions {
  std::string_view sort = "default";  // default, total, calls, max, min, ave
  bool per_thread = false;
};

// Where the recorded ops should run (docs/placement.md).
struct PlacementAdvice {
  std::string text{};    // the DeviceGuard scopes to add, by line, with times and memory before and after
  std::string file{};    // the same as a placement file
  bool changes = false;  // false: everything stays
  bool works = true;     // false: nothing found fits into the device's memory; `text` says why
  Nanoseconds recorded{}, predicted{};  // what the recording took, and would take so
};

class Profiler {
 public:
  // Throws: InvalidArgument when the runtime is being profiled already.
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Waits for the devices and stops recording; report and exports do so themselves.
  void stop();

  // The Profiling Report. Throws: InvalidArgument for an unknown sort key.
  std::string report(ProfileReportOptions options = {});
  std::string report(std::string_view sort) { return report(ProfileReportOptions{.sort = sort}); }
  // The report's figures, JSON.
  std::string report_json();
  // The placement of the whole recording that takes least inside so much memory of the GPU; 0: what it has. Tensors
  // that were made before the Profiler stay where they are, as does what stands in guards. A program that does not fit
  // is recorded with RuntimeOptions::values off and device_memory large.
  PlacementAdvice advise_placement(Bytes device_memory = {});
  // The trace itself, JSON that `ferry` commands read.
  void write_trace(std::ostream& out);
  // For Perfetto and chrome://tracing.
  void write_chrome_trace(std::ostream& out);
  // One self-contained page.
  void write_html(std::ostream& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferry
