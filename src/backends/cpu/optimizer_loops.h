// The loops of optimizers over one run of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <ferry/dtype.h>
#include "src/ops/optimizer.h"

namespace ferry::cpu_backend {

// `length` elements of each array, one after the other. state, master: null where they do not apply.
struct OptimizerRun {
  std::int64_t length = 0;
  std::byte* parameter = nullptr;
  const std::byte* gradient = nullptr;
  std::byte* state[ops::kOptimizerStates] = {};
  std::byte* master = nullptr;
};
using OptimizerLoop = void (*)(const ops::OptimizerAttributes&, std::span<const OptimizerRun>);

enum class OptimizerRule : std::uint8_t { sgd, adam, adagrad };

// For parameters of `dtype` with as many states. Throws: InvalidArgument where there is none.
OptimizerLoop optimizer_loop(std::string_view op, OptimizerRule rule, DType dtype, std::size_t states, bool has_master);

struct ScaleLoops {
  void (*scale)(std::byte* x, std::int64_t n, double factor);
  // Multiplies; tells whether all elements were finite.
  bool (*unscale)(std::byte* x, std::int64_t n, double factor);
  void (*clamp)(std::byte* x, std::int64_t n, double limit);
  double (*square_sum)(const std::byte* x, std::int64_t n);
};
const ScaleLoops& scale_loops(DType dtype);

}  // namespace ferry::cpu_backend
