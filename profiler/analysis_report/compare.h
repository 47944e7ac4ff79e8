// What changed between two traces of a program: hotspots that appeared, went, moved and grew.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "profiler/analysis_report/report.h"

namespace ferry::profiler::analysis_report {

enum class Change : std::uint8_t { appeared, went, moved, changed, same };

// A hotspot in either trace, or in both. `moved`: the same op and function at another line.
struct Difference {
  Change change = Change::same;
  const Finding* before = nullptr;
  const Finding* after = nullptr;
};

// Refers to the reports: they must outlive it. By the change of blocked time, the largest first.
std::vector<Difference> compare_hotspots(const AnalysisReport& before, const AnalysisReport& after);

// The rows that changed, at most options.top of them, and how many did not.
std::string comparison_text(const AnalysisReport& before, const AnalysisReport& after, const PrintOptions& options);
std::string comparison_markdown(const AnalysisReport& before, const AnalysisReport& after, const PrintOptions& options);
std::string comparison_html(const AnalysisReport& before, const AnalysisReport& after, const PrintOptions& options);
// All hotspots, or the first `top`, those that did not change among them.
nlohmann::json comparison_json(const AnalysisReport& before, const AnalysisReport& after,
                               std::optional<std::size_t> top = std::nullopt);

}  // namespace ferry::profiler::analysis_report
