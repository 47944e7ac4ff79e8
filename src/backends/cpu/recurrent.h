// Recurrent layers on the host: kernels and the loops that one task runs. Contracts in src/ops/recurrent.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

void lstm_layer(const KernelContext& context);
void lstm_layer_backward(const KernelContext& context);
void gru_layer(const KernelContext& context);
void gru_layer_backward(const KernelContext& context);

enum class RecurrentKind : std::uint8_t { lstm, gru };
constexpr std::int64_t gate_count(RecurrentKind kind) { return kind == RecurrentKind::lstm ? 4 : 3; }
// Of one step's saved values, in units of H.
constexpr std::int64_t saved_count(RecurrentKind kind) { return kind == RecurrentKind::lstm ? 5 : 4; }

// One step. T is the dtype of the arguments, C the type computed in; void* are arrays of C. All arrays are rows [N, …],
// dense unless a row step is stated. Rows of T and of C are the same memory where the types are.
struct RecurrentStep {
  std::int64_t hidden = 0;
  const void* weights = nullptr;  // packed
  const void* bias = nullptr;     // GRU: C [3H], or null

  // forward
  const std::byte* gates = nullptr;  // T [N, G H]
  const void* h_before = nullptr;    // C [N, H]
  bool from_zero = false;            // h_before is zero
  std::byte* y = nullptr;            // T [N, H]
  void* h_after = nullptr;           // C [N, H]
  void* c = nullptr;                 // LSTM: C [N, H], updated
  std::byte* saved = nullptr;        // T [N, K H], or null

  // backward; saved is read
  const std::byte* dy = nullptr;         // T [N, H], or null
  const void* later_products = nullptr;  // C [N, G H]: dproducts of the step after this in time; null for the last
  void* dh = nullptr;  // C [N, H]: what reaches this step's h otherwise than through products; GRU: updated
  void* dc = nullptr;  // LSTM: C [N, H], updated
  const std::byte* before = nullptr;  // T: c (LSTM) or h (GRU) before the step, null for zeros
  std::int64_t before_row = 0;
  std::byte* dgates = nullptr;     // T [N, G H]
  std::byte* dproducts = nullptr;  // T [N, G H]; LSTM: dgates
  void* products = nullptr;        // the same in C
};

// Loops over blocks of hidden units: `width` of them, the last block's partly beyond H.
struct RecurrentLoops {
  std::int64_t width = 0;
  std::int64_t element = 0;  // size of C
  // One block of w_hh [G H, H], transposed for the forward product and as it is for the backward one.
  void (*pack_forward)(const std::byte* w_hh, std::int64_t hidden, std::int64_t gates, std::int64_t block,
                       void* to) = nullptr;
  void (*pack_backward)(const std::byte* w_hh, std::int64_t hidden, std::int64_t gates, std::int64_t block,
                        void* to) = nullptr;
  // Rows [first, first + count) of a block; count ≤ kRecurrentRows. Indexed by kind.
  using Step = void (*)(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count);
  std::array<Step, 2> forward{}, backward{};
  // The gradient of what the first step began with, after all steps: y = dh + later_products w_hh.
  std::array<Step, 2> finish{};
  // Between rows of T and of C.
  void (*widen)(const std::byte* from, std::int64_t count, void* to) = nullptr;
  void (*narrow)(const void* from, std::int64_t count, std::byte* to) = nullptr;
};
constexpr std::int64_t kRecurrentRows = 64;

// width 0 for other dtypes than floats.
const std::array<RecurrentLoops, kDTypeCount>& recurrent_loops();

}  // namespace ferry::cpu_backend
