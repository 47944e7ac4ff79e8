// An iteration from a ferry trace, as far as a trace tells.
//
// Taken are the ops of the trace's first GPU (of the CPU if there is none), with their kernel's time. A trace has no
// releases: a tensor is taken as released after its last use, and as kept if it is never used. Tensors that no op of
// the trace made are taken as resident and pinned, views among them: a trace does not say what they are views of.
#pragma once

#include <string_view>

#include "src/trace/trace.h"
#include "swap/iteration.h"

namespace ferry::swap {

// `name` (a file's) stands in errors. Throws: ParseError if there are no ops.
Iteration iteration_of(const trace::Trace& trace, std::string_view name);

}  // namespace ferry::swap
