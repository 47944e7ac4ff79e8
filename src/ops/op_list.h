// Every op of ferry, once.
#pragma once

#include <span>

#include "src/ops/op_schema.h"

namespace ferry::ops {

// In the order of slots. The first call assigns the slots.
std::span<const OpSchema* const> all_ops();

// Null when there is no such op.
const OpSchema* find_op(std::string_view name);

}  // namespace ferry::ops
