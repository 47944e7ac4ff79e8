#include <nlohmann/json.hpp>

#include "profiler/analysis_report/report.h"

namespace ferry::profiler::analysis_report {
namespace {

using nlohmann::json;

json place_json(const Finding& finding) {
  return {{"op", finding.op},
          {"op_chain", finding.chain},
          {"frame", finding.frame},
          {"thread", finding.thread},
          {"rule", finding.rule},
          {"calls", finding.calls},
          {"bytes", finding.size.count},
          {"blocked_ns", finding.blocked.count()},
          {"drain_ns", finding.drain.count()},
          {"copy_ns", finding.copying.count()},
          {"at_ns", finding.worst_at.count()},
          {"fix", finding.fix}};
}

json hotspot_json(const AnalysisReport& report, const Finding& finding) {
  json out = place_json(finding);
  out["direction"] = short_direction(finding.direction);
  out["memory"] = memory_text(finding.memory);
  out["share"] = report.share(finding.blocked);
  if (report.step_time > Nanoseconds(0))
    out["step_share"] = static_cast<double>(finding.in_steps.count()) / static_cast<double>(report.step_time.count());
  if (!finding.allowed.empty()) out["allowed"] = finding.allowed;
  return out;
}

json finding_json(const Finding& finding) {
  json out = place_json(finding);
  out["text"] = finding.text;
  return out;
}

json copy_json(const CopyRow& row) {
  return {{"synchronous", row.synchronous},    {"direction", short_direction(row.direction)},
          {"memory", memory_text(row.memory)}, {"calls", row.calls},
          {"bytes", row.size.count},           {"gpu_ns", row.gpu.count()},
          {"blocked_ns", row.blocked.count()}};
}

json count_json(const Count& count) { return {{"calls", count.calls}, {"blocked_ns", count.blocked.count()}}; }

}  // namespace

json report_json(const AnalysisReport& report) {
  json out = {{"trace", report.source},
              {"format", report.format},
              {"virtual_time", report.virtual_time},
              {"begin_ns", report.begin.count()},
              {"span_ns", report.span.count()},
              {"events", report.events},
              {"steps", report.steps},
              {"step_ns", report.step_time.count()},
              {"sync_copies", {{"h2d", report.sync_h2d.calls}, {"d2h", report.sync_d2h.calls}}},
              {"blocked_ns", {{"h2d", report.sync_h2d.blocked.count()}, {"d2h", report.sync_d2h.blocked.count()}}},
              {"blocked_share", report.share(report.blocked())},
              {"scalar_reads", count_json(report.scalar_reads)},
              {"explicit_reads", count_json(report.explicit_copies)},
              {"device_copies", report.device_copies.calls},
              {"gpus", json::array()},
              {"memcpy", json::array()},
              {"hotspots", json::array()},
              {"explicit", json::array()},
              {"findings", json::array()},
              {"warnings", report.warnings}};
  if (report.rank >= 0) out["rank"] = report.rank;
  for (const GpuRow& gpu : report.gpus) {
    out["gpus"].push_back({{"device", gpu.device},
                           {"name", gpu.name},
                           {"busy_ns", gpu.busy.count()},
                           {"busy_share", report.share(gpu.busy)},
                           {"kernels", gpu.kernels}});
  }
  for (const CopyRow& row : report.copies) out["memcpy"].push_back(copy_json(row));
  for (const Finding& finding : report.hotspots) out["hotspots"].push_back(hotspot_json(report, finding));
  for (const Finding& finding : report.explicit_reads) out["explicit"].push_back(hotspot_json(report, finding));
  for (const Finding& finding : report.findings) out["findings"].push_back(finding_json(finding));
  for (const AnalysisReport& part : report.parts) out["files"].push_back(report_json(part));
  return out;
}

}  // namespace ferry::profiler::analysis_report
