// The Profiling Report of a trace, as text and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/device/activity_source.h"
#include "src/trace/trace.h"

namespace ferry::profiler {

enum class SortKey { default_order, total, calls, max, min, ave };

// "default", "total", "calls", "max", "min", "ave". Throws: InvalidArgument otherwise.
SortKey parse_sort_key(std::string_view text);

struct ReportOptions {
  SortKey sort = SortKey::default_order;
  bool per_thread = false;  // a table for each thread instead of one merged (JSON: "threads" in place of "events")
  std::vector<trace::Hotspot> findings{};  // ranked, advised; empty: those of find_hotspots, without advice
  std::vector<CopyActivity> activities{};  // of devices whose vendor's tracing library watched
};

std::string report_text(const trace::Trace& trace, const ReportOptions& options);
nlohmann::json report_json(const trace::Trace& trace, const ReportOptions& options);

// Synchronous implicit copies grouped by op and source line, by blocked host time, largest first; without advice.
std::vector<trace::Hotspot> find_hotspots(const trace::Trace& trace);

}  // namespace ferry::profiler
