// Matrix products as BLAS-like kernels take them: batch axes merged, each operand with one contiguous matrix axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// One operand's steps along the batch axis, rows and columns, in elements.
struct Steps {
  std::int64_t batch = 0, row = 0, column = 0;
};

// y[i] [m, n] = a[i] [m, k] × b[i] [k, n] for i in [0, batch). A batch step of 0 repeats one matrix.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Steps a, b, y;

  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// Batch axes without those of extent 1, neighbours merged where all three operands step evenly through both.
struct BatchAxes {
  struct Axis {
    std::int64_t extent, a, b, y;  // steps in elements
  };
  std::array<Axis, kMaxRank> axes;
  int count = 0;

  void push(const Axis& axis);
  std::int64_t size() const;
  // Steps of the i-th combination, the last axis running fastest.
  Axis offsets(std::int64_t i) const;
};

// A product of tensors: `problem` once for each combination of the outer axes.
struct BatchedMatmul {
  MatmulProblem problem;
  BatchAxes outer;
  const std::byte* a;
  const std::byte* b;
  std::byte* y;
};

// a: [B…, M, K], b: [B…, K, N] of any strides, y: [B…, M, N] dense. An operand without a contiguous matrix axis is
// copied into the calling thread's operand buffer, where it stays until the buffer is asked for again.
BatchedMatmul prepare_matmul(std::string_view op, const TensorView& a, const TensorView& b, const TensorView& y);

}  // namespace ferry::cpu_backend
