// Plans that only swap, made from the gaps between the uses of storages: while some op does not fit, a gap around it is
// chosen whose storage goes in it. Copies out start as early, copies in as late as the queues of all of them allow.
//
//   uses of s      op 3                                              op 9
//   device      ───█│                                               │█───
//   link out        │██ out ██│                                     │
//   s is away       │         │<──── ops 5 to 7 have its memory ───>│
//   link in         │                             │██████ in ██████ │
#pragma once

#include <cstdint>

#include "swap/iteration.h"
#include "swap/link.h"
#include "swap/program.h"
#include "swap/uses.h"

namespace ferry::swap {

struct GapOptions {
  Bytes budget{};
  Link link{};
  double effort = 1;  // 1: about half a second, less for short iterations
  std::uint64_t seed = 1;
};

// The fastest of the schedules tried: some by rules, the others by changes to one that was about as fast as the best.
// The same input gives the same program.
struct GapSchedule {
  Program program{};
  Cost cost{};     // of the program
  int trials = 0;  // schedules that were tried
};
GapSchedule schedule_gaps(const Iteration& iteration, const Uses& uses, const GapOptions& options);

}  // namespace ferry::swap
