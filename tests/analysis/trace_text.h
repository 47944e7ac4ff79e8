// Small traces in the words of the tools that write them, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include <ferry/error.h>
#include "profiler/analysis_report/report.h"
#include "profiler/importers/importer.h"

namespace ferry::profiler::test {

// Events of a PyTorch trace. Times are microseconds as text.
class KinetoText {
 public:
  KinetoText& slice(std::string_view category, std::string_view name, std::string_view begin, std::string_view length,
                    std::string_view args = "") {
    return event(category, name, "100", "100", begin, length, args);
  }
  KinetoText& gpu(std::string_view category, std::string_view name, std::string_view begin, std::string_view length,
                  int correlation, int stream = 7, std::string_view args = "") {
    return event(category, name, "0", std::to_string(stream), begin, length,
                 fmt::format(R"("device": 0, "stream": {}, "correlation": {}{}{})", stream, correlation,
                             args.empty() ? "" : ", ", args));
  }
  KinetoText& call(std::string_view name, std::string_view begin, std::string_view length, int correlation = 0) {
    return slice("cuda_runtime", name, begin, length,
                 correlation == 0 ? "" : fmt::format(R"("correlation": {})", correlation));
  }
  KinetoText& raw(std::string_view text) {
    events_ += (events_.empty() ? "" : ",\n") + std::string(text);
    return *this;
  }
  std::string text() const { return "{\"schemaVersion\": 1, \"traceEvents\": [" + events_ + "]}"; }
  const std::string& events() const { return events_; }

 private:
  KinetoText& event(std::string_view category, std::string_view name, std::string_view process, std::string_view thread,
                    std::string_view begin, std::string_view length, std::string_view args) {
    return raw(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        category, name, process, thread, begin, length, args));
  }

  std::string events_;
};

inline analysis::Activity imported(std::string_view text) {
  return importers::import_trace(importers::Input::memory("trace", text));
}

// What importing it says; "no error" if it succeeds.
inline std::string error_of(std::string_view text) {
  try {
    imported(text);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}
inline analysis_report::AnalysisReport report_of(std::string_view text) {
  return analysis_report::make_report(analysis::TraceIndex(imported(text)));
}

}  // namespace ferry::profiler::test
