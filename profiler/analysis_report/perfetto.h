// The trace with what was found in it, for Perfetto and chrome://tracing.
#pragma once

#include <iosfwd>

#include "profiler/rules/rule.h"

namespace ferry::profiler::analysis_report {

// All slices that the analysis kept, as Chrome trace events, and a process "ferry analyze" with a slice for each
// synchronous copy: its rule, what it cost, where the program is, and what to change.
void write_perfetto(const analysis::TraceIndex& index, std::ostream& out);

}  // namespace ferry::profiler::analysis_report
