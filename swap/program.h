// What is done on the device in one iteration, step by step: the program's ops in their order, and between them what a
// policy or the planner added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swap/iteration.h"
#include "swap/link.h"

namespace ferry::swap {

struct Step {
  enum class Kind : std::uint8_t {
    create,    // tensor: an input becomes resident
    run,       // op: for the first time or again
    drop,      // storage: its device memory and its host copy are given up
    copy_out,  // storage: a copy to host memory starts, unless a valid one is there
    leave,     // storage: its device memory is given back as soon as its host copy is complete
    bring_in,  // storage: memory is allocated and a copy from host memory starts
  };
  Kind kind = Kind::run;
  std::int32_t index = kNone;
  bool operator==(const Step&) const = default;
};

using Program = std::vector<Step>;

struct Cost {
  bool feasible = false;
  std::string reason{};     // why not
  Nanoseconds time{};       // from the first step to the last, on the virtual clock
  Nanoseconds recompute{};  // of it, ops that ran again
  Nanoseconds stall{};      // of it, waiting for copies
  Bytes peak{};
  Bytes bytes_out{}, bytes_in{};
  std::int64_t decisions = 0;  // victims that were chosen
};

// Runs `program` on the virtual clock. Not feasible: an op lacks an input, memory does not suffice, a storage that must
// be resident at the end is not, or an op of the iteration is missing.
// Ops run one after the other. An allocation waits for memory that leaves; an op waits for inputs that arrive. With a
// larger budget no step comes later, so a program for a smaller budget keeps a larger one in no more time.
// starts: where it is feasible, becomes the times at which the iteration's ops began, and last that of its end.
Cost evaluate(const Iteration& iteration, const Program& program, Bytes budget, const Link& link,
              std::vector<Nanoseconds>* starts = nullptr);

}  // namespace ferry::swap
