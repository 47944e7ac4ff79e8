#include <nlohmann/json.hpp>

#include "profiler/format.h"
#include "profiler/report.h"
#include "profiler/summary.h"

namespace ferry::profiler {
namespace {

using nlohmann::json;

json figures_json(const Figures& figures, const Summary& summary) {
  return {{"calls", figures.calls},
          {"total_ns", figures.total().count()},
          {"cpu_ns", figures.cpu.count()},
          {"gpu_ns", figures.gpu.count()},
          {"min_ns", figures.min.count()},
          {"max_ns", figures.max.count()},
          {"ave_ns", figures.average().count()},
          {"ratio", summary.ratio(figures.total())}};
}

json memcpy_json(const Figures& figures, const Summary& summary) {
  return {{"calls", figures.calls}, {"total_ns", figures.total().count()}, {"ratio", summary.ratio(figures.total())}};
}

json event_json(const EventRow& event, const Summary& summary) {
  json row = figures_json(event.figures, summary);
  row["name"] = event.name;
  row["kind"] = event.is_scope ? "scope" : "op";
  row["depth"] = event.depth;
  row["copies"] = json::array();
  for (const CopyRow& copy : event.copies) {
    json nested = figures_json(copy.figures, summary);
    nested["name"] = copy.name;
    row["copies"].push_back(std::move(nested));
  }
  return row;
}

json events_json(const EventTable& table, const Summary& summary) {
  json rows = json::array();
  for (const EventRow& event : table.rows) rows.push_back(event_json(event, summary));
  return rows;
}

void put_site(json& out, const trace::Trace& trace, trace::SiteIndex site) {
  const trace::Site where = site < 0 ? trace::Site{} : trace.sites[static_cast<std::size_t>(site)];
  out["file"] = where.file;
  out["line"] = where.line;
  out["function"] = where.function;
}

json site_json(const trace::Trace& trace, trace::SiteIndex site) {
  json out;
  put_site(out, trace, site);
  return out;
}

json advice_json(const trace::Trace& trace, const std::vector<trace::Hotspot>& findings, std::size_t finding,
                 const trace::Advice& advice) {
  json ops = json::array(), sites = json::array();
  for (const trace::StringIndex op : advice.ops) ops.push_back(trace.string(op));
  for (const trace::SiteIndex site : advice.sites) sites.push_back(site_json(trace, site));
  json out = {{"device", to_string(advice.device)},
              {"ops", std::move(ops)},
              {"sites", std::move(sites)},
              {"copies_removed", advice.copies_removed},
              {"copies_added", advice.copies_added},
              {"blocked_saved_ns", advice.blocked_saved.count()},
              {"compute_added_ns", advice.compute_added.count()},
              {"saved_ns", (advice.blocked_saved - advice.compute_added).count()},
              {"text", advice.text}};
  if (const int same = same_change(findings, finding, advice); same >= 0) out["same_as"] = same;
  return out;
}

json finding_json(const trace::Trace& trace, const std::vector<trace::Hotspot>& findings, std::size_t index) {
  const trace::Hotspot& finding = findings[index];
  json out = {{"op", trace.string(finding.op_name)},
              {"scope", trace.string(finding.scope)},
              {"variable", finding.tensor < 0 ? "" : tensor_text(trace, finding.tensor)},
              {"calls", finding.calls},
              {"bytes", finding.size.count},
              {"from", to_string(finding.from)},
              {"to", to_string(finding.to)},
              {"placement", placement_text(trace, finding)},
              {"blocked_ns", finding.blocked.count()},
              {"drain_ns", finding.drain.count()},
              {"transfer_ns", finding.transfer.count()},
              {"advice", json::array()}};
  put_site(out, trace, finding.site);
  for (const trace::Advice& advice : finding.advice)
    out["advice"].push_back(advice_json(trace, findings, index, advice));
  return out;
}

json read_json(const trace::Trace& trace, const ExplicitRead& read) {
  json out = {{"op", trace.string(read.op)},
              {"scope", trace.string(read.scope)},
              {"variable", read.tensor < 0 ? "" : tensor_text(trace, read.tensor)},
              {"cause", read.cause == trace::CopyCause::fetch ? "fetch" : "transfer"},
              {"calls", read.calls},
              {"bytes", read.size.count},
              {"from", to_string(read.from)},
              {"to", to_string(read.to)},
              {"blocked_ns", read.blocked().count()},
              {"drain_ns", read.drain.count()},
              {"transfer_ns", read.transfer.count()}};
  put_site(out, trace, read.site);
  return out;
}

json check_json(const CopyCheck& check) {
  json kinds = json::array();
  for (const CopyKinds& row : check.kinds) {
    kinds.push_back({{"from", memory_text(row.from)},
                     {"to", memory_text(row.to)},
                     {"calls", row.calls},
                     {"bytes", row.size.count},
                     {"gpu_ns", row.time.count()}});
  }
  return {{"library", check.library}, {"recorded", check.recorded}, {"seen", check.seen},
          {"others", check.others},   {"holds", check.holds()},     {"kinds", std::move(kinds)}};
}

json memory_json(const MemoryRow& row) {
  return {{"device", to_string(row.device.device)},
          {"name", row.device.name},
          {"peak_allocated", row.device.peak_allocated.count},
          {"peak_reserved", row.device.peak_reserved.count},
          {"capacity", row.device.capacity.count},
          {"bytes_to_device", row.to_device.count},
          {"bytes_from_device", row.from_device.count}};
}

}  // namespace

json report_json(const trace::Trace& trace, const ReportOptions& options) {
  const Summary summary = summarize(trace, options);
  json out = {{"place", summary.place},
              {"virtual_time", summary.virtual_time},
              {"copy_mode", trace.copy_mode},
              {"total_ns", summary.total.count()},
              {"computation_ns", summary.computation.count()},
              {"overhead_ns", summary.overhead().count()},
              {"memcpy", memcpy_json(summary.memcpy, summary)},
              {"memory", json::array()},
              {"findings", json::array()},
              {"explicit_reads", json::array()},
              {"unavailable_reads", trace.unavailable_reads}};
  out["memcpy"]["async"] = memcpy_json(summary.memcpy_async, summary);
  out["memcpy"]["sync"] = memcpy_json(summary.memcpy_sync, summary);
  out["memcpy"]["fetches"] = {{"calls", summary.fetches.calls},
                              {"blocked_ns", summary.fetches.blocked().count()},
                              {"drain_ns", summary.fetches.drain.count()},
                              {"transfer_ns", summary.fetches.transfer.count()}};
  if (const CopyCheck& check = summary.copy_check; !check.library.empty()) {
    out["memcpy"]["check"] = check_json(check);
  }
  if (options.per_thread) {
    out["threads"] = json::array();
    for (const EventTable& table : summary.tables) {
      out["threads"].push_back({{"thread", table.thread}, {"events", events_json(table, summary)}});
    }
  } else {
    out["events"] = events_json(summary.tables.front(), summary);
  }
  for (const MemoryRow& row : summary.memory) out["memory"].push_back(memory_json(row));
  for (std::size_t i = 0; i < summary.findings.size(); ++i)
    out["findings"].push_back(finding_json(trace, summary.findings, i));
  for (const ExplicitRead& read : summary.reads) out["explicit_reads"].push_back(read_json(trace, read));
  return out;
}

}  // namespace ferry::profiler
