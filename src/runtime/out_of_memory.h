// Says of an allocation that failed inside an op what the user can do about it.
#pragma once

#include <source_location>

#include <ferry/error.h>
#include "src/ops/op_schema.h"

namespace ferry {

OutOfMemory explain(const OutOfMemory& error, const ops::OpSchema& schema, ops::TensorPointers inputs,
                    std::source_location where);

}  // namespace ferry
