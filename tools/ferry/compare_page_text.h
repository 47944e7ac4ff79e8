// The page of a comparison: tables, and a chart that is drawn on a canvas.
#pragma once

#include "profiler/page.h"

namespace ferry::cli {

// Its data: the figures of `ferry compare --format json`, each row with its text and timeline.
extern const profiler::PageParts kComparePage;

}  // namespace ferry::cli
