// The limits that a CI run sets to a trace.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analysis_report/report.h"

namespace ferry::profiler::analysis_report {

// A copy that the user knows of and keeps.
struct Allowance {
  std::string pattern{};  // of an op or a frame; * stands for any text
  std::string reason{};
  int line = 0;
  bool used = false;
};

// Lines "pattern  # reason"; empty lines and lines that begin with # are skipped. `name` (a file's) stands in errors.
// Throws: ParseError for a line without a reason.
std::vector<Allowance> parse_allowances(std::string_view text, std::string_view name);

// Whether the pattern, in which * stands for any text, is all of `text` or of an end of it after '/': "train.py*"
// matches "src/train.py(31): step".
bool matches(std::string_view pattern, std::string_view text);

// Marks the hotspots that an allowance matches, by op, an op of the chain, or frame; says which allowances match none.
void allow(AnalysisReport& report, std::vector<Allowance>& allowances);

struct Limits {
  std::optional<std::int64_t> max_sync{};  // synchronous copies
  std::optional<double> max_blocked{};     // of the span, 0.05 for 5 %
  bool any() const { return max_sync || max_blocked; }
};
// "5%" or "0.05". Throws: InvalidArgument for other text and negative shares.
double parse_share(std::string_view text);

struct Verdict {
  std::int64_t sync_copies = 0;  // that nobody allowed
  Nanoseconds blocked{};
  double blocked_share = 0;
  std::vector<std::string> violations{};  // a sentence each
  bool passed() const { return violations.empty(); }
};
Verdict judge(const AnalysisReport& report, const Limits& limits);

// The sentences and the hotspots behind them, for stderr.
std::string verdict_text(const AnalysisReport& report, const Verdict& verdict);
// JUnit XML: a case for each limit, and one for each hotspot, which fails with its limit.
std::string report_junit(const AnalysisReport& report, const Limits& limits);

}  // namespace ferry::profiler::analysis_report
