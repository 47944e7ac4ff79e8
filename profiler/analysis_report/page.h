// The page around an analysis's data: style, tables and drawings of what happened around each hotspot.
#pragma once

namespace ferry::profiler::analysis_report {

// The data, a JSON object, goes between the two.
extern const char* const kPageHead;
extern const char* const kPageTail;

}  // namespace ferry::profiler::analysis_report
