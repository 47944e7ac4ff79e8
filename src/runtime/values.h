// Reading tensor values on the host.
#pragma once

#include <vector>

#include "src/runtime/residency.h"

namespace ferry {

// The elements of an i32 or i64 tensor, row-major. Waits for them.
std::vector<std::int64_t> read_integers(RuntimeCore& core, const TensorImpl& tensor, const CopyReason& reason);

}  // namespace ferry
