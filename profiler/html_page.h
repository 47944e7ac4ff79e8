// The page of a Profiling Report: tables and a timeline that is drawn on a canvas.
#pragma once

#include "profiler/page.h"

namespace ferry::profiler {

// Its data: {"report", "begin", "end", "left_out", "timeline"}.
extern const PageParts kReportPage;

}  // namespace ferry::profiler
