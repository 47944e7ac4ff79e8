// An activity as importers fill it: its types by their own names, and what every format adds.
#pragma once

#include "profiler/analysis/activity.h"

namespace ferry::profiler::importers {

using analysis::Activity;
using analysis::CallClass;
using analysis::CopyDetail;
using analysis::Direction;
using analysis::Event;
using analysis::EventKind;
using analysis::HostMemory;
using analysis::NameIndex;
using analysis::RecordedClass;
using analysis::TrackIndex;

// Appends an event. Nothing, and counts it in `tolerated`, for times that no clock gives: an end before its begin, or
// one so far from zero that differences would not fit.
Event* add_event(Activity& activity, EventKind kind, Nanoseconds begin, Nanoseconds end, TrackIndex track);

// Says of an event of the activity what it copies. A size that no memory has, of which sums would not fit, counts as
// none.
void add_copy(Activity& activity, Event& event, const CopyDetail& detail);

}  // namespace ferry::profiler::importers
