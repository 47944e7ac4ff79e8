// Says of an allocation that failed inside an op what the user can do about it.
#pragma once

#include <source_location>

#include <ferry/device.h>
#include <ferry/error.h>
#include "src/ops/op_schema.h"

namespace ferry {

class Budget;

// device: where the op runs. budget: the runtime's, or null.
OutOfMemory explain(const OutOfMemory& error, const ops::OpSchema& schema, ops::TensorPointers inputs, Device device,
                    std::source_location where, Budget* budget);

}  // namespace ferry
