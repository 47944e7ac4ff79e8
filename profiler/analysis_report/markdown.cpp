#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "profiler/analysis_report/report.h"
#include "profiler/format.h"

namespace ferry::profiler::analysis_report {
namespace {

std::string gpus(const AnalysisReport& report) {
  std::string text;
  for (const GpuRow& gpu : report.gpus) {
    text += fmt::format("{}gpu:{}{} {} busy", text.empty() ? "" : ", ", gpu.device,
                        gpu.name.empty() ? "" : " " + markdown_cell(gpu.name), short_percent(report.share(gpu.busy)));
  }
  return text.empty() ? "no GPU work" : text;
}

}  // namespace

std::string markdown_cell(std::string_view text) {
  constexpr std::string_view kMarks = "|*_`<\\[~";
  std::string out;
  for (const char c : text) {
    if (kMarks.find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string report_markdown(const AnalysisReport& report, const PrintOptions& options) {
  std::string text = fmt::format(
      "## {}\n\n{}{}. {} over {} ms. **{} CPU→GPU and {} GPU→CPU synchronous copies block the "
      "host for {} ms ({}).**\n",
      markdown_cell(report.source), report.format, report.virtual_time ? ", virtual time" : "", gpus(report),
      milliseconds(report.span), report.sync_h2d.calls, report.sync_d2h.calls, milliseconds(report.blocked()),
      short_percent(report.share(report.blocked())));
  if (!report.hotspots.empty()) {
    text +=
        "\n| # | op | where | rule | calls | bytes | blocked ms | drain ms | copy ms | change |\n"
        "|--:|---|---|---|--:|--:|--:|--:|--:|---|\n";
  }
  for (std::size_t i = 0; i < std::min(options.top, report.hotspots.size()); ++i) {
    const Finding& hotspot = report.hotspots[i];
    text += fmt::format("| {} | {} | {} | {} {} | {} | {} | {} | {} | {} | {} |\n", i + 1, markdown_cell(hotspot.op),
                        markdown_cell(hotspot.frame), markdown_cell(hotspot.rule), direction_text(hotspot.direction),
                        hotspot.calls, to_string(hotspot.size), milliseconds(hotspot.blocked),
                        milliseconds(hotspot.drain), milliseconds(hotspot.copying),
                        markdown_cell(hotspot.allowed.empty() ? hotspot.fix : "allowed: " + hotspot.allowed));
  }
  if (report.hotspots.size() > options.top)
    text += fmt::format("\n… {} more (--top)\n", report.hotspots.size() - options.top);
  if (!report.findings.empty()) text += "\n| finding | where | what | ms | change |\n|---|---|---|--:|---|\n";
  std::map<std::string_view, std::size_t> of_rule;
  for (const Finding& finding : report.findings) {
    if (++of_rule[finding.rule] > options.top) continue;
    const bool has_place = !finding.op.empty() || !finding.frame.empty();
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown_cell(finding.rule),
                        has_place ? markdown_cell(place_text(finding)) : "", markdown_cell(finding.text),
                        milliseconds(finding.blocked), markdown_cell(finding.fix));
  }
  if (!report.warnings.empty()) text += '\n';
  for (const std::string& warning : report.warnings) text += "- " + markdown_cell(warning) + '\n';
  return text;
}

}  // namespace ferry::profiler::analysis_report
