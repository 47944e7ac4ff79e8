// Turns the logs of all threads into one Trace.
#pragma once

#include <span>

#include "profiler/thread_log.h"
#include "src/trace/trace.h"

namespace ferry::profiler {

// Records of all threads by begin time, then thread, then order of recording: the same logs give the same trace.
// Strings and sites are equal by content, tensors by id; a tensor that was named after its first use has that name.
trace::Trace merge(std::span<const ThreadLog* const> logs);

}  // namespace ferry::profiler
