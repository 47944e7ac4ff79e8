// Attention on the host: kernels and the loops that one task runs. Contracts in src/ops/attention.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void scaled_dot_product_attention(const KernelContext& context);
void scaled_dot_product_attention_backward(const KernelContext& context);

// One head's part of an array; steps in elements. No data: not given.
struct HeadMatrix {
  std::byte* data = nullptr;
  std::int64_t row = 0, column = 0;
};

enum class MaskKind : std::uint8_t { none, boolean, same, f32 };  // same: q's dtype

// The work of one task: one head's queries [first_row, first_row + row_count), and in backward its keys [first_key,
// first_key + key_count).
struct AttentionTask {
  std::int64_t rows, keys, depth, value_depth;
  std::int64_t first_row = 0, row_count = 0, first_key = 0, key_count = 0;
  HeadMatrix q{}, k{}, v{}, y{}, mask{};
  HeadMatrix dy{}, dq{}, dk{}, dv{}, dmask{};  // backward
  std::byte* log_sum_exp = nullptr;            // by query, dense
  MaskKind mask_kind = MaskKind::none;
  bool causal = false;
  double scale = 1;
  // Dropout: a weight is kept where the upper 24 bits of its word reach the threshold. 0: no dropout.
  std::uint32_t threshold = 0;
  double kept_scale = 1;
  std::uint64_t seed = 0, position = 0;  // of the head's first weight
};

struct AttentionLoops {
  void (*forward)(const AttentionTask&) = nullptr;
  void (*backward)(const AttentionTask&) = nullptr;
};
// Null entries for other dtypes than floats.
const std::array<AttentionLoops, kDTypeCount>& attention_loops();

}  // namespace ferry::cpu_backend
