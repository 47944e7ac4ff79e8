#include <nlohmann/json.hpp>

#include "profiler/analysis_report/compare.h"
#include "profiler/analysis_report/page.h"
#include "profiler/analysis_report/views.h"

namespace ferry::profiler::analysis_report {
namespace {

using nlohmann::json;

json view_json(const HotspotView& view) {
  json out = {{"source", view.source},
              {"begin", view.window.begin.count()},
              {"length", (view.window.end - view.window.begin).count()},
              {"left_out", view.left_out},
              {"tracks", json::array()}};
  for (const ViewTrack& track : view.tracks) {
    json slices = json::array();
    for (const ViewSlice& slice : track.slices) {
      // Times since the begin of what is drawn: those of a trace since 1970 are too large for a page's numbers.
      slices.push_back({{"n", slice.name},
                        {"k", static_cast<int>(slice.kind)},
                        {"l", slice.level},
                        {"b", (slice.begin - view.window.begin).count()},
                        {"d", (slice.end - slice.begin).count()},
                        {"h", slice.is_hotspot}});
    }
    out["tracks"].push_back({{"name", track.name}, {"slices", std::move(slices)}});
  }
  return out;
}

}  // namespace

std::string report_html(const AnalysisReport& report, const std::vector<HotspotView>& views) {
  json data = {{"report", report_json(report)}};
  json& hotspots = data["report"]["hotspots"];
  for (std::size_t i = 0; i < report.hotspots.size(); ++i) {
    const std::string key = key_of(report.hotspots[i]);
    for (const HotspotView& view : views) {
      if (view.place != key) continue;
      hotspots[i]["view"] = view_json(view);
      break;
    }
  }
  return page(kAnalysisPage, data.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string comparison_html(const AnalysisReport& before, const AnalysisReport& after, const PrintOptions& options) {
  const json data = comparison_json(before, after, options.top);
  return page(kComparisonPage, data.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace ferry::profiler::analysis_report
