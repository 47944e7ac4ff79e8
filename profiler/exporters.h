// A trace in other tools' formats.
#pragma once

#include <iosfwd>

#include "profiler/report.h"

namespace ferry::profiler {

// Chrome trace event JSON for Perfetto and chrome://tracing: a process per device, a track per host thread, stream and
// copy engine, flows from launch to work, counters of allocated and reserved memory.
void write_chrome_trace(const trace::Trace& trace, std::ostream& out);

// One self-contained page: the report's tables, the timeline and the findings. Nothing is loaded from elsewhere.
void write_html(const trace::Trace& trace, const ReportOptions& options, std::ostream& out);

}  // namespace ferry::profiler
