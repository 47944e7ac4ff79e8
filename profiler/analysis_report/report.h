// What `ferry analyze` says of a trace, computed once; text, JSON, Markdown, the page and the CI gate print it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "profiler/rules/rule.h"

namespace ferry::profiler::analysis_report {

using analysis::Direction;
using analysis::HostMemory;
using analysis::TraceIndex;
using rules::Finding;

// Copies of one kind.
struct CopyRow {
  bool synchronous = false;
  Direction direction = Direction::unknown;
  HostMemory memory = HostMemory::unknown;
  std::int64_t calls = 0;
  Bytes size{};
  Nanoseconds gpu{};      // time of the copies on the GPU
  Nanoseconds blocked{};  // host time
};

struct GpuRow {
  std::int32_t device = 0;
  std::string name{};
  Nanoseconds busy{};
  std::int64_t kernels = 0;
};

struct Count {
  std::int64_t calls = 0;
  Nanoseconds blocked{};
};

struct AnalysisReport {
  std::string source{};  // the file, or "4 files"
  std::string format{};
  std::int64_t rank = -1;
  bool virtual_time = false;
  Nanoseconds begin{}, span{};
  std::int64_t events = 0;
  std::int64_t steps = 0;
  Nanoseconds step_time{};  // of all steps
  std::vector<GpuRow> gpus{};
  Count sync_h2d{}, sync_d2h{};
  Count scalar_reads{};     // of the synchronous device→host copies, those that read a value
  Count explicit_copies{};  // not among the synchronous ones: the trace says that the program asked for them
  Count device_copies{};    // device→device
  std::vector<CopyRow> copies{};
  std::vector<Finding> hotspots{};        // synchronous copies by place
  std::vector<Finding> explicit_reads{};  // by place
  std::vector<Finding> findings{};        // of the other rules
  std::vector<std::string> warnings{};
  std::vector<AnalysisReport> parts{};  // of several files, each

  Nanoseconds blocked() const { return sync_h2d.blocked + sync_d2h.blocked; }
  std::int64_t sync_calls() const { return sync_h2d.calls + sync_d2h.calls; }
  double share(Nanoseconds time) const {
    return span > Nanoseconds(0) ? static_cast<double>(time.count()) / static_cast<double>(span.count()) : 0;
  }
};

AnalysisReport make_report(const TraceIndex& index);
// One report of several files of a job: times and counts add up, places that are the same are one row.
// Requires: at least one part.
AnalysisReport merge_reports(std::vector<AnalysisReport> parts);

enum class HotspotSort : std::uint8_t { blocked, calls, bytes, drain, copy };
// Throws: InvalidArgument for other texts than the names above.
HotspotSort parse_hotspot_sort(std::string_view text);
void sort_hotspots(AnalysisReport& report, HotspotSort sort);

struct PrintOptions {
  std::size_t top = 20;  // rows of hotspots and of findings of each rule
};

// Only the first `top` hotspots, explicit reads and findings of each rule; totals stay. What --top leaves of JSON and
// the page; the other formats say how many more there are.
AnalysisReport first_rows(AnalysisReport report, std::size_t top);

std::string report_text(const AnalysisReport& report, const PrintOptions& options);
std::string report_markdown(const AnalysisReport& report, const PrintOptions& options);
nlohmann::json report_json(const AnalysisReport& report);

// Words that the formats share.
std::string_view direction_text(Direction direction);   // "CPU->GPU"
std::string_view short_direction(Direction direction);  // "h2d"
std::string_view memory_text(HostMemory memory);        // "pageable"; "" when it is not known
std::string place_text(const Finding& finding);         // "aten::to at train.py(31): step"
std::string markdown_cell(std::string_view text);       // with what Markdown would take for its own escaped

}  // namespace ferry::profiler::analysis_report
