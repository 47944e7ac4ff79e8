#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "profiler/exporters.h"
#include "profiler/format.h"
#include "profiler/html_page.h"
#include "profiler/timeline.h"

namespace ferry::profiler {
namespace {

using nlohmann::json;

// A browser draws this many fluently; of longer runs the longest spans are kept.
constexpr std::size_t kMostSpans = 50'000;

std::size_t keep_longest(std::vector<Span>& spans) {
  if (spans.size() <= kMostSpans) return 0;
  std::vector<Nanoseconds> lengths;
  for (const Span& span : spans) lengths.push_back(span.end - span.begin);
  std::ranges::nth_element(lengths, lengths.begin() + kMostSpans, std::ranges::greater{});
  const Nanoseconds shortest = lengths[kMostSpans];
  return std::erase_if(spans, [&](const Span& span) { return span.end - span.begin <= shortest; });
}

json timeline_json(const trace::Trace& trace, const Timeline& timeline) {
  json tracks = json::array(), spans = json::array();
  for (const Track& track : timeline.tracks) {
    const std::string process = track.process == 0 ? "" : "gpu:" + std::to_string(track.process - 1) + " ";
    tracks.push_back({{"name", process + track.name}});
  }
  for (const Span& span : timeline.spans) {
    json row = {{"t", span.track},
                {"k", static_cast<int>(span.kind)},
                {"n", span.name},
                {"b", span.begin.count()},
                {"e", span.end.count()}};
    if (span.site >= 0) row["l"] = site_text(trace, span.site);
    if (span.scope >= 0) row["c"] = trace.string(span.scope);
    if (span.size > Bytes{}) row["z"] = span.size.count;
    if (span.synchronous) row["s"] = true;
    spans.push_back(std::move(row));
  }
  return {{"tracks", std::move(tracks)}, {"spans", std::move(spans)}};
}

}  // namespace

void write_html(const trace::Trace& trace, const ReportOptions& options, std::ostream& out) {
  Timeline timeline = make_timeline(trace);
  Nanoseconds begin = trace.begin, end = trace.end;
  for (const Span& span : timeline.spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  json data = {{"report", report_json(trace, options)}, {"begin", begin.count()}, {"end", end.count()}};
  data["left_out"] = keep_longest(timeline.spans);
  data["timeline"] = timeline_json(trace, timeline);
  out << page(kReportPage, data.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace ferry::profiler
