// The error of an allocation that could not be met, with what would help worked out from the figures.
#pragma once

#include <optional>
#include <string_view>

#include <ferry/error.h>

namespace ferry::memory {

struct Shortage {
  std::string_view where;  // "sim:rtx2080ti", "pinned host memory of cpu"
  Bytes requested;         // as asked for
  Bytes needed;            // rounded up to a block
  Bytes allocated, active, reserved, largest_free;
  std::optional<Bytes> limit;  // unset: unknown
  std::string_view limit_is;   // "capacity", "limit", "budget"
};

OutOfMemory out_of_memory(const Shortage& shortage);

}  // namespace ferry::memory
