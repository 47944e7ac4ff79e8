// Copies on one lane of the link, one after the other.
#pragma once

#include <vector>

#include <ferry/units.h>

namespace ferry::swap {

// A copy that may begin at `release` and should end by `deadline`.
struct CopyJob {
  Nanoseconds release{}, deadline{}, length{};
  Nanoseconds begin{};
};

// Sets when each begins: of those that may begin, the one with the earliest deadline.
void line_up(std::vector<CopyJob>& jobs);

}  // namespace ferry::swap
