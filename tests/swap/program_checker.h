// An independent check of what a policy or the planner wants to do: walks the steps with sets and sums that are
// computed anew each time, and knows nothing of how they came about.
#pragma once

#include <string>

#include "swap/program.h"

namespace ferry::testing {

struct Checked {
  std::string problem{};  // empty: the program is right
  Nanoseconds time{};
  Bytes peak{};
};

// Every op runs once in the iteration's order, and again only later; each has its inputs; memory never exceeds the
// budget; a value is on the device or comes from a complete host copy; kept tensors are resident at the end.
Checked check_program(const swap::Iteration& iteration, const swap::Program& program, Bytes budget,
                      const swap::Link& link);

}  // namespace ferry::testing
