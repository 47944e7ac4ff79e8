// Iterations for tests: networks trained forward and backward, and random programs.
#pragma once

#include <cstdint>

#include "swap/iteration.h"

namespace ferry::testing {

// The training step of a chain of `layers` layers: each keeps its output until its backward op; the gradients of the
// parameters are kept. Layer times vary a little, so that no two choices cost the same.
swap::Iteration chain(int layers, Bytes activation, Nanoseconds time);

// Ops with up to three inputs and outputs, views, in-place results, repeated releases, values kept at the end.
swap::Iteration random_program(std::uint64_t seed, int ops);

}  // namespace ferry::testing
