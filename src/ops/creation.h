// Random numbers as a runtime hands them out.
#pragma once

#include <cstdint>

namespace ferry::ops {

struct RandomStream {
  std::uint64_t seed, offset;
};

// Reserves `count` positions of the current runtime's stream. Implemented by the runtime.
RandomStream draw_random(std::int64_t count);

}  // namespace ferry::ops
