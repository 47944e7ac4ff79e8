// The dtype in which results that describe 16-bit tensors are kept: statistics and losses.
#pragma once

#include <ferry/dtype.h>

namespace ferry::ops {

constexpr DType wide(DType type) { return size_of(type) == 2 ? DType::f32 : type; }

}  // namespace ferry::ops
