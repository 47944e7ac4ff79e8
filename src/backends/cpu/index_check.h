// Reading and checking arrays of indices (i64 or i32, dense).
#pragma once

#include <optional>
#include <string_view>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

inline std::int64_t index_at(const TensorView& indices, std::int64_t i) {
  return indices.dtype == DType::i64 ? indices.as<std::int64_t>()[i] : indices.as<std::int32_t>()[i];
}

struct IndexCheck {
  std::string_view name;  // of the argument that holds the indices
  const TensorView& view;
  std::int64_t bound;     // indices are in [lowest, bound)
  std::string_view into;  // what they index
  const Shape& shape;     // and its shape
  std::int64_t lowest = 0;
  std::optional<std::int64_t> except{};  // a value that is legal besides
};

// Throws: InvalidArgument for the first index out of range, as in
// "embedding: ids[3] = 12 is out of range for table [10, 4], which takes 0 to 9".
void check_indices(const KernelContext& context, const IndexCheck& check);

}  // namespace ferry::cpu_backend
