// An optimizer updates all parameters of a device in one op call. Placed apart, it makes a call for each device: so
// that the advisor can move some of them, their parts of the call become calls of their own.
#pragma once

#include "src/trace/trace.h"

namespace ferry::placement {

// The trace with each update of tensors that several lines made as one op for each of these lines, which follow each
// other and share the call's time, work and cost by bytes. Tables but ops, copies (their ops) and work stay.
trace::Trace split_updates(trace::Trace trace);

}  // namespace ferry::placement
