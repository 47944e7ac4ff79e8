// The pages of an analysis and of a comparison: tables, and drawings of what happened around each hotspot.
#pragma once

#include "profiler/page.h"

namespace ferry::profiler::analysis_report {

// Its data: {"report"}, of which hotspots may have a "view".
extern const PageParts kAnalysisPage;
// Its data: that of comparison_json.
extern const PageParts kComparisonPage;

}  // namespace ferry::profiler::analysis_report
