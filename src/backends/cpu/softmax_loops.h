// Loops over rows that are normalised by exponentials, shared by softmax, log_softmax, logsumexp and the losses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/backends/cpu/strided.h"

namespace ferry::cpu_backend {

// `count` rows of `length` elements. Step 1: rows are contiguous and follow each other. Otherwise they lie side by
// side, as columns: element i of row r is at i * step + r.
struct RowBlock {
  std::int64_t length, count, step;
};

constexpr std::int64_t kBlockRows = 64;        // at most in a block
constexpr std::int64_t kBlockElements = 2048;  // of contiguous rows, so that passes over them find them in the cache

// For one dtype T; C is what it is computed in. Arrays of C have one number a row.
struct SoftmaxLoops {
  void (*softmax)(const RowBlock&, const std::byte* x, std::byte* y) = nullptr;
  void (*log_softmax)(const RowBlock&, const std::byte* x, std::byte* y) = nullptr;
  void (*softmax_backward)(const RowBlock&, const std::byte* dy, const std::byte* y, std::byte* dx) = nullptr;
  void (*log_softmax_backward)(const RowBlock&, const std::byte* dy, const std::byte* y, std::byte* dx) = nullptr;
  // The largest element (0 where it is not finite), and the logarithm of the sum of e^(x - largest).
  void (*log_sum_exp)(const RowBlock&, const std::byte* x, std::byte* largest, std::byte* log_sum) = nullptr;
  // dx = slope e^(x - log_sum_exp)
  void (*exponential)(const RowBlock&, const std::byte* x, const std::byte* log_sum_exp, const std::byte* slope,
                      std::byte* dx) = nullptr;
  // The same minus shift * weights[element's place in its row].
  void (*shifted)(const RowBlock&, const std::byte* x, const std::byte* log_sum_exp, const std::byte* slope,
                  const std::byte* shift, const std::byte* weights, std::byte* dx) = nullptr;
  // Σ weights[place] (anchor - x)
  void (*weighted_distance)(const RowBlock&, const std::byte* x, const std::byte* anchor, const std::byte* weights,
                            std::byte* sum) = nullptr;
};

// Throws: InvalidArgument, naming the op, for other dtypes than floats.
const SoftmaxLoops& softmax_loops(const KernelContext& context, DType dtype);

// Calls body(block, first element, first row) for blocks that cover the rows of a dense array along `axis`, in
// parallel. Rows are numbered row-major without the axis.
template <class Body>
void for_each_block(const Shape& shape, int axis, const Body& body) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t length = shape[axis], size = std::max<std::int64_t>(1, length);
  if (inner == 1) {
    const std::int64_t rows = std::clamp<std::int64_t>(kBlockElements / size, 1, kBlockRows);
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (rows * size));
    parallel_for((outer + rows - 1) / rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin * rows; row < std::min(outer, end * rows); row += rows) {
        body(RowBlock{length, std::min(rows, outer - row), 1}, row * length, row);
      }
    });
    return;
  }
  const std::int64_t blocks = (inner + kBlockRows - 1) / kBlockRows;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (std::min(inner, kBlockRows) * size));
  parallel_for(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i / blocks, column = i % blocks * kBlockRows;
      body(RowBlock{length, std::min(kBlockRows, inner - column), inner}, at * length * inner + column,
           at * inner + column);
    }
  });
}

}  // namespace ferry::cpu_backend
