// Reading tensor values on the host.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "src/runtime/residency.h"

namespace ferry {

// The elements of an i32 or i64 tensor, row-major. Waits for them.
std::vector<std::int64_t> read_integers(RuntimeCore& core, const TensorImpl& tensor, const CopyReason& reason);

// The elements of a contiguous tensor that lives on the CPU, valid until the tensor is written or goes. Waits for them.
// Throws: InvalidArgument in timing-only mode; `action` says what wants them and is static storage.
std::span<const std::byte> host_bytes(const Tensor& tensor, std::string_view action,
                                      std::source_location where = std::source_location::current());

}  // namespace ferry
