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

namespace ferry {

struct ProfileReportOptions {
  std::string_view sort = "default";  // default, total, calls, max, min, ave
  bool per_thread = false;
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
