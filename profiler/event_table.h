// The Event Summary: calls grouped by op and by scope.
#pragma once

#include <cstdint>

#include "profiler/summary.h"
#include "profiler/work_index.h"

namespace ferry::profiler {

// Events of one thread, or of all when `thread` is -1. A copy without an op record (a fetch) is an event named after
// what asked for it. A scope's time is that of its host intervals, its GPU time that of the calls begun inside.
EventTable event_table(const trace::Trace& trace, const WorkIndex& index, SortKey sort, std::int64_t thread);

}  // namespace ferry::profiler
