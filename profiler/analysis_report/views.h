// What host and GPU did around a hotspot's longest call, for a drawing.
#pragma once

#include <string>
#include <vector>

#include "profiler/analysis_report/report.h"

namespace ferry::profiler::analysis_report {

struct ViewSlice {
  std::string name{};
  analysis::EventKind kind = analysis::EventKind::op;
  int level = 0;  // 0 is the outermost
  Nanoseconds begin{}, end{};
  bool is_hotspot = false;  // the copy's call, its wait, its work on the GPU
};

struct ViewTrack {
  std::string name{};
  std::vector<ViewSlice> slices{};
};

struct HotspotView {
  std::string place{};  // key_of the hotspot
  std::string source{};
  analysis::Interval window{};
  std::vector<ViewTrack> tracks{};  // the thread, then streams with work in the window
  std::int64_t left_out = 0;        // slices too short to be drawn
};

// Names a hotspot's place; equal for the same place in several files.
std::string key_of(const Finding& finding);
// Of the first `top` hotspots of the report that was made from the index.
std::vector<HotspotView> hotspot_views(const TraceIndex& index, const AnalysisReport& report, std::size_t top);

// One self-contained page: tiles, hotspots with their views, tables. Nothing is loaded from elsewhere.
std::string report_html(const AnalysisReport& report, const std::vector<HotspotView>& views);

}  // namespace ferry::profiler::analysis_report
